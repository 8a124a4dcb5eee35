// Files of results: their links, their values, and whether they are on the map.
import { useEffect } from "preact/hooks";
import { address, get } from "../api/client";
import { useResource } from "../api/resource";
import type { Asset, Collection } from "../api/wire";
import { Act, Copy, Failure, Loading, Outward, safe, save } from "../controls";
import { bytes, rounded } from "../format";
import { isGeoTIFF, mayBeValue, meaningOf, textOf, valuesIn, type Value } from "../map/asset";
import type { Picture } from "../map/raster_layer";
import { texts } from "../texts";
import type { Rasters } from "./rasters";

const t = texts.results;

// picturesOf returns the files that can be shown on the map, under the name of their owner.
export const picturesOf = (owner: string, assets: Record<string, Asset>): Picture[] =>
  Object.entries(assets)
    .filter(([, a]) => isGeoTIFF(a))
    .map(([name, a]) => ({ name: `${owner}/${name}`, href: a.href, meaning: meaningOf(a) }));

// valuesOf reads the values of all small files. What cannot be read is left out; its link stays.
export async function valuesOf(assets: Record<string, Asset>): Promise<Map<string, Value>> {
  const found = Object.entries(assets)
    .filter(([, a]) => mayBeValue(a))
    .map(async ([name, a]) => {
      try {
        return [...valuesIn(name, await textOf(a.href))];
      } catch {
        return [];
      }
    });
  return new Map((await Promise.all(found)).flat());
}

export const shownValue = (v: Value): string => (typeof v === "number" ? rounded(v) : String(v));

export function Files({ owner, assets, rasters }: { owner: string; assets: Record<string, Asset>; rasters: Rasters }) {
  return (
    <ul class="files">
      {Object.entries(assets).map(([name, a]) => (
        <File key={name} id={`${owner}/${name}`} name={name} asset={a} rasters={rasters} />
      ))}
    </ul>
  );
}

function File({ id, name, asset: a, rasters }: { id: string; name: string; asset: Asset; rasters: Rasters }) {
  const on = rasters.shown.includes(id);
  const inline = a.href.startsWith("data:");
  const facts = [a.type?.split(";")[0], a["file:size"] !== undefined && bytes(a["file:size"])];
  return (
    <li data-file={name}>
      <div class="grow">
        <Outward href={a.href}>{a.title || name}</Outward>{" "}
        <span class="soft small">{facts.filter(Boolean).join(" · ")}</span>
      </div>
      {isGeoTIFF(a) && (
        <button
          type="button"
          class="quiet small"
          aria-pressed={on}
          onClick={() =>
            on ? rasters.hide(id) : void rasters.show([{ name: id, href: a.href, meaning: meaningOf(a) }])
          }
        >
          {on ? t.hide : t.open}
          <span class="visually-hidden"> {name}</span>
        </button>
      )}
      {safe(a.href) && (
        <a class="button quiet small" href={safe(a.href)} download={name} rel="noopener noreferrer">
          {t.download}
          <span class="visually-hidden"> {name}</span>
        </a>
      )}
      {inline && (
        <button type="button" class="quiet small" onClick={() => void saveData(name, a)}>
          {t.download}
          <span class="visually-hidden"> {name}</span>
        </button>
      )}
      {!inline && <Copy text={a.href} label={t.link} small />}
    </li>
  );
}

// saveData saves a file whose content is in its address.
async function saveData(name: string, a: Asset): Promise<void> {
  const ending = /json/i.test(a.type ?? "") ? ".json" : ".txt";
  save(name.includes(".") ? name : name + ending, await textOf(a.href), a.type);
}

// JobResults lists the files of one job with their values, and puts the first picture on the map.
export function JobResults({ id, rasters }: { id: number; rasters: Rasters }) {
  const {
    value: found,
    error,
    again,
  } = useResource(
    async abort => (await get<Collection | null>(`unit_jobs/${id}/results`, abort)) ?? ({} as Partial<Collection>),
    [id],
  );
  const assets = found?.assets ?? {};
  const values = useResource(found ? () => valuesOf(assets) : null, [found]);
  const [first] = picturesOf(String(id), assets);
  useEffect(() => {
    if (first) void rasters.show([first]);
  }, [first?.name]);
  if (error !== null && !found) return <Failure error={error} again={again} />;
  if (!found) return <Loading />;
  if (Object.keys(assets).length === 0) return <p class="soft">{t.none}</p>;
  return (
    <>
      {values.value && values.value.size > 0 && (
        <dl class="facts values-read">
          {[...values.value].map(([name, v]) => (
            <div key={name} data-value={name}>
              <dt>{name}</dt>
              <dd class="num">{shownValue(v)}</dd>
            </div>
          ))}
        </dl>
      )}
      <Files owner={String(id)} assets={assets} rasters={rasters} />
      <Takeaway
        links={async () => Object.values(assets).map(a => a.href)}
        command={`eodispatch download job-${id} --to results`}
        stac={`unit_jobs/${id}/results`}
        name={`job-${id}`}
      />
    </>
  );
}

// Takeaway offers everything at once.
export function Takeaway({
  links,
  command,
  stac,
  name,
}: {
  links: () => Promise<string[]>;
  command: string;
  stac: string;
  name: string;
}) {
  return (
    <div class="takeaway">
      <div class="row">
        <Act label={t.list} act={async () => save(`${name}-links.txt`, (await links()).join("\n") + "\n")} />
        <a class="button quiet" href={address(stac).href}>
          {t.stac}
        </a>
      </div>
      <p class="soft small">{t.listHelp}</p>
      <p class="small">
        {t.command} <code>{command}</code> <Copy text={command} />
      </p>
    </div>
  );
}
