import { execFileSync, spawnSync } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import autocannon, { type Request } from 'autocannon';

/** One load over loopback; every request carries an `X-GitHub-Delivery` of its own. */
export interface Load {
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
  readonly seconds: number;
  readonly connections: number;
  /** Whether each request gets a connection of its own, as from most publishers. */
  readonly closes?: boolean | undefined;
}

export interface Figures {
  readonly requestsPerSecond: number;
  readonly p50Ms: number;
  readonly p99Ms: number;
  /** Requests without an answer, or with a status other than the first one's. */
  readonly failed: number;
  /** The status of the answers. */
  readonly status: number;
}

export interface Loader {
  readonly name: string;
  run(load: Load): Promise<Figures>;
}

/** wrk where it is installed, because it costs the machine less than what it measures; else autocannon. */
export function findLoader(name: string | undefined): Loader {
  if (name === 'autocannon') return autocannonLoader;
  const hasWrk = spawnSync('wrk', ['-v']).error === undefined;
  if (name === 'wrk' && !hasWrk) throw new Error('wrk is not installed');
  return hasWrk ? wrkLoader : autocannonLoader;
}

const autocannonLoader: Loader = { name: 'autocannon', run: (load) => cannonade(load) };

/** So many requests a second and no more, evenly; whatever loader is installed. */
export function steadyLoad(load: Load, requestsPerSecond: number): Promise<Figures> {
  return cannonade(load, requestsPerSecond);
}

async function cannonade(load: Load, overallRate?: number): Promise<Figures> {
  const { url, body, seconds, connections } = load;
  const headers = { ...load.headers, ...(load.closes === true ? { connection: 'close' } : {}) };
  const setupRequest = (request: Request): Request => ({
    ...request,
    headers: { ...request.headers, 'x-github-delivery': randomUUID() },
  });
  const requests = [{ method: 'POST' as const, headers, body, setupRequest }];
  const rate = overallRate === undefined ? {} : { overallRate };
  const result = await autocannon({ url, connections, duration: seconds, requests, ...rate });
  const statuses = Object.entries(result.statusCodeStats ?? {});
  const status = Number(statuses[0]?.[0] ?? 0);
  return {
    requestsPerSecond: result.requests.total / result.duration,
    p50Ms: result.latency.p50,
    p99Ms: result.latency.p99,
    failed: result.errors + result.timeouts + (statuses.length > 1 ? 1 : 0),
    status,
  };
}

const wrkLoader: Loader = {
  name: 'wrk',
  async run({ url, headers: given, body, seconds, connections, closes }) {
    const headers = { ...given, ...(closes === true ? { connection: 'close' } : {}) };
    const folder = mkdtempSync(join(tmpdir(), 'sluice-wrk-'));
    try {
      const script = join(folder, 'load.lua');
      writeFileSync(script, wrkScript(headers, body));
      const args = ['-t1', `-c${connections}`, `-d${seconds}s`, '--timeout', '10s', '-s', script, url];
      return JSON.parse(execFileSync('wrk', args, { encoding: 'utf8' }).split('FIGURES').at(-1) ?? '') as Figures;
    } finally {
      rmSync(folder, { recursive: true, force: true });
    }
  },
};

function wrkScript(headers: Readonly<Record<string, string>>, body: string): string {
  const table = Object.entries(headers).map(([name, value]) => `  ["${name}"] = "${value}",`);
  return `
wrk.method = "POST"
wrk.body = [==[${body}]==]
local headers = {
${table.join('\n')}
}
local count = 0
local run = "${randomUUID()}"
function request()
  count = count + 1
  headers["x-github-delivery"] = run .. "-" .. count
  return wrk.format(nil, nil, headers)
end
local threads = {}
function setup(thread) table.insert(threads, thread) end
status = 0
mixed = 0
function response(code)
  if status == 0 then status = code end
  if code ~= status then mixed = mixed + 1 end
end
function done(summary, latency)
  local errors = summary.errors
  local failed = errors.connect + errors.read + errors.write + errors.timeout + threads[1]:get("mixed")
  io.write(string.format('FIGURES{"requestsPerSecond":%f,"p50Ms":%f,"p99Ms":%f,"failed":%d,"status":%d}',
    summary.requests / (summary.duration / 1e6), latency:percentile(50) / 1000, latency:percentile(99) / 1000,
    failed, threads[1]:get("status")))
end
`;
}
