import { setTimeout as wait } from 'node:timers/promises';
import { expect } from 'vitest';
import { eventually } from '../e2e/service.ts';
import { type Cluster, type ClusterOptions, createCluster, type Publishers, type Replica } from './cluster.ts';
import { runSql } from './schemas.ts';

interface Torture {
  readonly url: string;
  readonly seconds: number;
  /** Called repeatedly while deliveries arrive. It must leave the cluster able to work. */
  readonly hurt: (cluster: Cluster) => Promise<void>;
  readonly cluster?: ClusterOptions;
}

/** How long each torture of a proof lasts; its last round is always finished. */
export const TORTURE_SECONDS = Number(process.env.TEST_TORTURE_SECONDS ?? 60);

const STEPS = {
  first: { type: 'NoOp' },
  pause: { type: 'Delay', inputs: { seconds: 0.05 }, runAfter: { first: ['Succeeded'] } },
  last: { type: 'LogMessage', inputs: { message: 'done' }, runAfter: { pause: ['Succeeded'] } },
};

/** On a slow machine, the torture continues until this many deliveries were taken. */
const FEWEST = 20;

/** By design, a step that was running in three processes when they died is given up. */
const BLAMED = 'interrupted_too_often';

/** Kills one replica after the other, each after the previous one is back. */
export function killInTurn(): Torture['hurt'] {
  let turn = 0;
  return async ({ replicas }) => {
    turn += 1;
    const replica = replicas[turn % replicas.length] as Replica;
    await replica.stop('SIGKILL');
    await replica.start();
  };
}

/**
 * Sends deliveries to two replicas while something hurts them; checks that each taken delivery has exactly one run and
 * that every run ended.
 */
export async function torture({ url, seconds, hurt, cluster: options }: Torture): Promise<Publishers> {
  const cluster = await createCluster(url, { size: 2, steps: STEPS, ...options });
  // Both at once: one of them makes the schema, and one deploys the folder.
  await Promise.all(cluster.replicas.map((replica) => replica.start()));
  const publishers = cluster.publish();
  const end = performance.now() + seconds * 1000;
  while (performance.now() < end || publishers.taken.length <= FEWEST) {
    await wait(500);
    await hurt(cluster);
  }
  const taken = await publishers.stop();
  const ask = (text: string) => runSql(text.replaceAll('sluice.', `"${cluster.schema}".`), [], url);
  const inFlight = () => ask("SELECT count(*)::integer AS count FROM sluice.runs WHERE status = 'Running'");
  await eventually(inFlight, ([row]) => row?.count === 0, {
    seconds: 120,
    because: 'steps of a replica that hung are free when their lease ends, and one that is suspected runs alone',
  });

  const runs = (await ask(`
    SELECT convert_from(trigger_body, 'UTF8')::json ->> 'delivery' AS delivery, count(*)::integer AS runs
    FROM sluice.runs GROUP BY 1`)) as { delivery: string; runs: number }[];
  const started = new Map(runs.map(({ delivery, runs: count }) => [delivery, count]));
  expect(
    taken.filter((delivery) => !started.has(delivery)),
    'deliveries that were taken and have no run',
  ).toEqual([]);
  expect(
    [...started].filter(([, count]) => count > 1),
    'deliveries with two runs',
  ).toEqual([]);
  const wrong = await ask(`
    SELECT r.id, r.status FROM sluice.runs r WHERE r.status <> 'Succeeded' AND NOT EXISTS (
      SELECT FROM sluice.steps s WHERE s.run_id = r.id AND s.error LIKE '%${BLAMED}%')`);
  expect(wrong, 'runs that ended otherwise').toEqual([]);
  expect(taken.length).toBeGreaterThan(FEWEST);
  return publishers;
}
