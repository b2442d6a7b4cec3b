import { execFile, spawnSync } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
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
  /** So many requests a second and no more, evenly; as many as are answered where not given. */
  readonly rate?: number | undefined;
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

/** wrk where it is installed: a request costs it 13 µs of CPU, autocannon 30 to 60, on the cores that the service needs. */
export function findLoader(name: string | undefined): Loader {
  if (name === 'autocannon') return autocannonLoader;
  const hasWrk = spawnSync('wrk', ['-v']).error === undefined;
  if (name === 'wrk' && !hasWrk) throw new Error('wrk is not installed');
  return hasWrk ? wrkLoader : autocannonLoader;
}

const autocannonLoader: Loader = {
  name: 'autocannon',
  async run({ url, body, seconds, connections, closes, rate, ...load }) {
    const headers = { ...load.headers, ...(closes === true ? { connection: 'close' } : {}) };
    const setupRequest = (request: Request): Request => ({
      ...request,
      headers: { ...request.headers, 'x-github-delivery': randomUUID() },
    });
    const requests = [{ method: 'POST' as const, headers, body, setupRequest }];
    const overall = rate === undefined ? {} : { overallRate: rate };
    const result = await autocannon({ url, connections, duration: seconds, requests, ...overall });
    const statuses = Object.entries(result.statusCodeStats ?? {});
    const status = Number(statuses[0]?.[0] ?? 0);
    return {
      requestsPerSecond: result.requests.total / result.duration,
      p50Ms: result.latency.p50,
      p99Ms: result.latency.p99,
      failed: result.errors + result.timeouts + (statuses.length > 1 ? 1 : 0),
      status,
    };
  },
};

const wrkLoader: Loader = {
  name: 'wrk',
  async run(load) {
    const folder = await mkdtemp(join(tmpdir(), 'sluice-wrk-'));
    try {
      const script = join(folder, 'load.lua');
      await writeFile(script, wrkScript(load));
      const args = ['-t1', `-c${load.connections}`, `-d${load.seconds}s`, '--timeout', '10s', '-s', script, load.url];
      const { stdout } = await promisify(execFile)('wrk', args);
      return JSON.parse(stdout.split('FIGURES').at(-1) ?? '') as Figures;
    } finally {
      await rm(folder, { recursive: true, force: true });
    }
  },
};

function wrkScript({ headers: given, body, closes, rate }: Load): string {
  const headers = { ...given, ...(closes === true ? { connection: 'close' } : {}) };
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
${rate === undefined ? '' : wrkPace(rate)}
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

/** wrk asks each connection before each request how many milliseconds to wait: all of them draw from one timetable. */
function wrkPace(rate: number): string {
  return `
local ffi = require("ffi")
ffi.cdef("typedef struct { long seconds; long nanoseconds; } timespec; int clock_gettime(int, timespec *);")
local time = ffi.new("timespec")
local function now()
  ffi.C.clock_gettime(1, time)
  return tonumber(time.seconds) * 1000 + tonumber(time.nanoseconds) / 1e6
end
local startedAt
local turns = 0
function delay()
  startedAt = startedAt or now()
  turns = turns + 1
  return math.max(0, math.floor(startedAt + turns * 1000 / ${rate} - now() + 0.5))
end
`;
}
