// Runs the openEO JavaScript client against the broker.
//
// Reads {"broker": URL, "token": …, "modules": folder, "lines": JavaScript of docs/clients.md} from standard input, runs these lines, which leave
// the connection and a started job, waits for the job, and sends what the openEO Web Editor sends when it starts. It writes what it found as JSON.
"use strict";

const given = JSON.parse(require("fs").readFileSync(0, "utf8"));
const modules = require("module").createRequire(given.modules);
const AsyncFunction = (async () => {}).constructor;
const ended = ["finished", "error", "canceled"];

async function main() {
  Object.assign(process.env, { EODISPATCH_BROKER: given.broker, EODISPATCH_TOKEN: given.token });
  const lines = new AsyncFunction("require", given.lines + "\nreturn { connection, job, data, type, logs };");
  const { connection, job, data, type, logs: runLogs } = await lines(modules);
  while (!ended.includes((await job.describeJob()).status)) {
    await new Promise((resolve) => setTimeout(resolve, 500));
  }

  let bytes = 0;
  for await (const chunk of data) {
    bytes += chunk.length;
  }

  // the Web Editor's start: what it asks for if the capabilities list it
  const capabilities = connection.capabilities();
  const start = ["listCollections", "listProcesses", "listFileTypes", "listUdfRuntimes", "listServiceTypes", "describeAccount", "listJobs", "listUserProcesses"];
  const missing = start.filter((feature) => !capabilities.hasFeature(feature));
  const [collections, processes, formats, runtimes, , account, jobs] = await Promise.all(
    start.map((feature) => connection[feature]()));
  const options = await connection.listProcessingParameters();
  const log = job.debugJob();
  const logs = await log.nextLogs();
  const later = await log.nextLogs();
  const results = await job.getResultsAsStac();
  const absent = await connection.describeCollection("NONE").then(() => "described", (error) => error.code);

  process.stdout.write(JSON.stringify({
    version: capabilities.apiVersion(),
    status: job.status,
    bytes,
    type,
    runLogs: runLogs.length,
    user: account.user_id,
    collections: collections.collections.length,
    processes: processes.processes.length,
    formats: Object.keys(formats.getOutputTypes()).length,
    runtimes: Object.keys(runtimes).length,
    options: options.create_job_parameters.length,
    jobs: jobs.length,
    logs: logs.length,
    later: later.length,
    assets: Object.keys(results.assets).length,
    absent,
    missing,
  }));
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
