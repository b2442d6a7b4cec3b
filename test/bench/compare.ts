import { execFileSync } from 'node:child_process';
import { resolve } from 'node:path';
import { parseArgs } from 'node:util';
import { sluice } from './candidates.ts';
import { sumOf } from './counters.ts';
import { startLoader } from './load.ts';
import { type Conditions, measureQuietly } from './measure.ts';

/**
 * Compares this checkout with another one, both built, and prints a comment for a pull request: the bytes of the
 * package, and the CPU of an accepted delivery with its run. Both are loaded in turn in one run, because figures of two
 * machines, or of two hours on one machine, cannot be compared.
 */
const { values } = parseArgs({
  options: {
    base: { type: 'string' },
    seconds: { type: 'string', default: '5' },
    rounds: { type: 'string', default: '5' },
    'warm-up': { type: 'string', default: '15000' },
    repeats: { type: 'string', default: '2' },
  },
});
if (values.base === undefined) throw new Error('--base takes the folder of the checkout to compare with');
const builds = { base: resolve(values.base), head: resolve(import.meta.dirname, '../..') };
type Side = keyof typeof builds;

interface Packed {
  readonly size: number;
  readonly unpackedSize: number;
  readonly entryCount: number;
}

function packed(folder: string): Packed {
  const listed = execFileSync('npm', ['pack', '--dry-run', '--ignore-scripts', '--json'], {
    cwd: folder,
    encoding: 'utf8',
    stdio: ['ignore', 'pipe', 'ignore'],
  });
  const [found] = JSON.parse(listed) as Packed[];
  if (found === undefined) throw new Error(`npm packs nothing in ${folder}`);
  return found;
}

const loader = startLoader('own');
const conditions: Conditions = {
  loader,
  seconds: Number(values.seconds),
  connections: 50,
  warmUp: Number(values['warm-up']),
  repeats: Number(values.repeats),
  onStarted: () => {},
};

async function microseconds(side: Side): Promise<number> {
  const make = () => sluice('accepted', { build: builds[side] });
  const { cpu, requests } = await measureQuietly({ name: side, make, base: side }, conditions);
  if (cpu === null) throw new Error('this system does not count the CPU of a process: it takes Linux');
  return (sumOf(cpu) * 1e6) / requests;
}

const measured: Record<Side, number[]> = { base: [], head: [] };
try {
  for (let round = 0; round < Number(values.rounds); round += 1) {
    // Each side goes first equally often.
    const order: Side[] = round % 2 === 0 ? ['base', 'head'] : ['head', 'base'];
    for (const side of order) measured[side].push(await microseconds(side));
  }
} finally {
  loader.stop();
}

const median = (all: readonly number[]) => all.toSorted((a, b) => a - b)[Math.floor(all.length / 2)] ?? Number.NaN;
const grouped = (value: number) => Math.round(value).toLocaleString('en').replaceAll(',', ' ');
const change = (base: number, head: number) => {
  const percent = ((head - base) / base) * 100;
  return `${percent < 0 ? '−' : '+'}${Math.abs(percent).toFixed(1)} %`;
};
const row = (name: string, base: number, head: number) =>
  `| ${name} | ${grouped(base)} | ${grouped(head)} | ${change(base, head)} |`;
const span = (all: readonly number[]) => `${grouped(Math.min(...all))} to ${grouped(Math.max(...all))}`;

const sizes = { base: packed(builds.base), head: packed(builds.head) };
process.stdout.write(
  `${[
    '### Size and speed',
    '',
    '| | base | this | change |',
    '|---|---|---|---|',
    row('bytes packed', sizes.base.size, sizes.head.size),
    row('bytes unpacked', sizes.base.unpackedSize, sizes.head.unpackedSize),
    row('files packed', sizes.base.entryCount, sizes.head.entryCount),
    row('CPU µs a delivery with its run', median(measured.base), median(measured.head)),
    '',
    `Medians of ${values.rounds} rounds in turn on one machine (base ${span(measured.base)}, this ${span(measured.head)}): a change within`,
    `these spans says nothing. docs/performance.md tells what is measured.`,
  ].join('\n')}\n`,
);
