// What the modules of the page need of a browser when they are loaded.
import { vi } from "vitest";

vi.stubGlobal("document", { baseURI: "http://localhost/", addEventListener: () => undefined });
vi.stubGlobal("location", { hash: "" });
vi.stubGlobal("window", { addEventListener: () => undefined });
vi.stubGlobal("sessionStorage", { getItem: () => null, setItem: () => undefined, removeItem: () => undefined });
