import { expect, test, vi } from "vitest";
import type { Job, Service } from "../src/api/wire";
import { runAgain } from "../src/api/jobs";
import { serviceOf } from "../src/form/again";
import { draftFor } from "../src/form/draft";

test("a job that is run again after a lost response is run once", async () => {
  const keys: string[] = [];
  let answers = false;
  vi.stubGlobal("fetch", async (_: URL, { method, headers }: RequestInit) => {
    if (method === "GET") return new Response('{"id": 7, "title": "NDVI"}');
    keys.push((headers as Record<string, string>)["Idempotency-Key"]!);
    if (!answers) throw new TypeError("the response was lost");
    return new Response('{"id": 8}', { status: 201 });
  });
  await expect(runAgain(7)).rejects.toMatchObject({ status: 0 });
  answers = true;
  expect(await runAgain(7)).toBe(8);
  expect(keys[1]).toBe(keys[0]);
  await runAgain(7);
  expect(keys[2]).not.toBe(keys[0]);
});

test("what the storage of the tab cannot hold stays in the form", () => {
  const stored = new Map([["eodispatch-run:json", "{}"]]);
  vi.stubGlobal("sessionStorage", {
    getItem: () => null,
    removeItem: (key: string) => stored.delete(key),
    setItem: () => {
      throw new Error("QuotaExceededError");
    },
  });
  const draft = draftFor({ id: "json", parameters: [] } as unknown as Service);
  draft.value = { ...draft.value, title: "kept" };
  expect(draft.value.title).toBe("kept");
  expect(stored.size).toBe(0); // not an older draft in its place
});

test("the service of an earlier run is found on the catalogue's last page", async () => {
  const run = { application: "https://catalogue.example/ndvi.json", endpoint: "https://platform.example" };
  vi.stubGlobal("fetch", async ({ pathname, searchParams }: URL) => {
    if (pathname !== "/services")
      return Response.json({ id: pathname.slice(-4), ...(pathname.endsWith("ndvi") && run) });
    return Response.json(searchParams.has("cursor") ? { services: [{ id: "ndvi" }] } : { services: [], next: "a b" });
  });
  expect((await serviceOf({ service: run } as Job))?.id).toBe("ndvi");
});
