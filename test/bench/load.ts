import { execFile, fork, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { chanceOf } from '../chance.ts';

/** One load over loopback; each request has a new `X-GitHub-Delivery`, a random GUID like GitHub's. */
export interface Load {
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
  readonly seconds: number;
  /** The load ends after this many requests, if that is earlier. */
  readonly count?: number | undefined;
  readonly connections: number;
  /** Open a new connection for each request, as most publishers do. */
  readonly closes?: boolean | undefined;
  /** Requests per second by a timetable; without it, as many as are answered. */
  readonly rate?: number | undefined;
}

export interface Figures {
  /** Answered requests. */
  readonly requests: number;
  readonly requestsPerSecond: number;
  readonly p50Ms: number;
  readonly p99Ms: number;
  readonly p999Ms: number;
  /** Requests without an answer, or with a status other than the most frequent one. */
  readonly failed: number;
  /** The most frequent status. */
  readonly status: number;
}

export interface Loader {
  /** The program that makes the loads without a rate. */
  readonly name: string;
  /** Our process that makes the other loads. */
  readonly pid: number;
  run(load: Load): Promise<Figures>;
  stop(): void;
}

/**
 * Loads come from `generator.ts`; those without rate and count come from wrk if installed: its requests cost the cores
 * that the service needs only 13 µs of CPU each.
 */
export function startLoader(name: string | undefined): Loader {
  const hasWrk = spawnSync('wrk', ['-v']).error === undefined;
  if (name === 'wrk' && !hasWrk) throw new Error('wrk is not installed');
  if (name !== undefined && !['wrk', 'own'].includes(name)) throw new Error('--loader takes wrk or own');
  const usesWrk = hasWrk && name !== 'own';
  const generator = fork(join(import.meta.dirname, 'generator.ts'));
  const ended = once(generator, 'exit').then(() => {
    throw new Error('the generator of loads has ended');
  });
  // Between two loads no code awaits it.
  ended.catch(() => {});
  return {
    name: usesWrk ? 'wrk' : 'own generator',
    pid: generator.pid ?? 0,
    async run(load) {
      if (usesWrk && load.rate === undefined && load.count === undefined) return runWrk(load);
      const answered = once(generator, 'message');
      generator.send(load);
      const [figures] = await Promise.race([answered, ended]);
      return figures;
    },
    stop() {
      generator.kill();
    },
  };
}

async function runWrk(load: Load): Promise<Figures> {
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
}

/** Gives each load of a process different delivery ids. */
const loads = chanceOf('loads of wrk');

function wrkScript({ headers: given, body, closes }: Load): string {
  const headers = { ...given, ...(closes === true ? { connection: 'close' } : {}) };
  const table = Object.entries(headers).map(([name, value]) => `  ["${name}"] = "${value}",`);
  return `
wrk.method = "POST"
wrk.body = [==[${body}]==]
local headers = {
${table.join('\n')}
}
local random = math.random
math.randomseed(${loads.below(2 ** 31)})
function request()
  headers["x-github-delivery"] = string.format("%04x%04x-%04x-4%03x-%04x-%06x%06x", random(0, 65535), random(0, 65535),
    random(0, 65535), random(0, 4095), random(32768, 49151), random(0, 16777215), random(0, 16777215))
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
  local at = function(share) return latency:percentile(share) / 1000 end
  local text = '{"requests":%d,"requestsPerSecond":%f,"p50Ms":%f,"p99Ms":%f,"p999Ms":%f,"failed":%d,"status":%d}'
  io.write("FIGURES" .. string.format(text, summary.requests, summary.requests / (summary.duration / 1e6), at(50), at(99),
    at(99.9), failed, threads[1]:get("status")))
end
`;
}
