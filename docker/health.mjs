// Ends with 0 if the service in this container answers `live` or `ready`, whichever is given, else with 1.
// biome-ignore lint/style/noProcessEnv: it runs beside the service and reads two of its settings
const { SLUICE_PORT, PORT } = process.env;
const url = `http://127.0.0.1:${SLUICE_PORT || PORT || 3000}/health/${process.argv[2] ?? 'ready'}`;
try {
  const { status } = await fetch(url, { signal: AbortSignal.timeout(5000) });
  process.stdout.write(`${url}: ${status}\n`);
  process.exitCode = status === 200 ? 0 : 1;
} catch (error) {
  process.stdout.write(`${url}: ${error.cause?.message ?? error.message}\n`);
  process.exitCode = 1;
}
