import { BODIES as SCHEMA_BODIES } from '../attacks/cost.ts';
import { github, type Slug, startTarget as startGated } from '../attacks/target.ts';
import { BODIES, BODY_FLOWS } from '../e2e/hostile-bodies.ts';
import { startTarget } from '../e2e/hostile-service.ts';
import { cpuOf, sumOf } from './counters.ts';

/**
 * Sends the bodies of the hostile-input proofs to the built service, one by one, and prints the processor time of each
 * until its run ends. Exits with 1 if one took more than two seconds: the freezes found before took 4 to 30.
 */
const MOST_SECONDS = 2;

const cpuSeconds = (pid = 0): number => {
  const cpu = cpuOf(pid);
  if (cpu === null) throw new Error('the processor time of a process is not told here');
  return sumOf(cpu);
};

async function measure(pid: number | undefined, what: string, work: () => Promise<unknown>): Promise<void> {
  const before = cpuSeconds(pid);
  await work();
  const seconds = cpuSeconds(pid) - before;
  if (seconds > MOST_SECONDS) process.exitCode = 1;
  console.log(`${seconds.toFixed(2).padStart(6)} s${seconds > MOST_SECONDS ? ' !' : '  '} ${what}`);
}

const target = await startTarget(BODY_FLOWS);
for (const [title, delivery] of BODIES) {
  await measure(target.service.child.pid, title, async () => {
    await target.send(delivery);
    await target.endedRuns(delivery.slug);
  });
}
await target.close();

const list = Array.from({ length: 20_000 }, (_, n) => n);
const EXPRESSIONS: readonly (readonly [what: string, slug: Slug, body: string])[] = [
  ['a filter that compares each of many values with each', 'filtered', JSON.stringify({ id: 'a', list, pass: false })],
  ['the key of a shared run that does so', 'coalesced', JSON.stringify({ sku: 'a', list })],
];
const gated = await startGated();
for (const [what, slug, body] of [...SCHEMA_BODIES, ...EXPRESSIONS]) {
  await measure(gated.service().child.pid, what, () => gated.send(slug, github(body)));
}
await gated.close();
