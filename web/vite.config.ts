import { rm } from "node:fs/promises";
import license from "rollup-plugin-license";
import { defineConfig } from "vitest/config";

// The broker that `npm run dev` forwards requests to.
const broker = process.env["EODISPATCH_BROKER"] ?? "http://127.0.0.1:8080";
// Everything is the broker's but the page and what Vite serves of its source.
const routes = "^/(?!$|[?#]|index\\.html|src/|node_modules/|@)";

export default defineConfig({
  base: "./", // a proxy may serve the broker below a path
  build: {
    outDir: "dist",
    assetsDir: "page",
    emptyOutDir: false, // dist holds a committed placeholder
    target: "es2022",
    assetsInlineLimit: 0, // the Content-Security-Policy permits no data: URLs but of images
    modulePreload: { polyfill: false },
  },
  plugins: [
    {
      name: "remove the last build",
      apply: "build",
      buildStart: () => rm("dist/page", { recursive: true, force: true }),
    },
    license({
      thirdParty: {
        includePrivate: false,
        includeSelf: false,
        output: "dist/page/notices.txt",
      },
    }),
  ],
  test: { setupFiles: "test/setup.ts", testTimeout: 60_000 },
  server: {
    proxy: {
      [routes]: { target: broker, ws: true, changeOrigin: false },
    },
  },
});
