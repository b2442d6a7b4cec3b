import { createHmac, randomUUID } from 'node:crypto';
import { setTimeout as wait } from 'node:timers/promises';
import { onTestFinished } from 'vitest';
import { createWorkspace, GITHUB_SECRET, githubManifest, type Service, startService } from '../e2e/service.ts';
import { dropSchema } from './schemas.ts';

/** At any time, some of the services may be gone, paused or without a database. */
export interface Cluster {
  readonly schema: string;
  readonly replicas: readonly Replica[];
  /** Sends deliveries to all of them until `stop` is called; sends each again until a replica has taken it. */
  publish(): Publishers;
}

export interface Replica {
  readonly name: string;
  /** Null while it is not running. */
  readonly service: Service | null;
  /** Starts the service built in a folder; by default the folder that the cluster was made with. */
  start(build?: string): Promise<void>;
  stop(signal: NodeJS.Signals): Promise<void>;
}

export interface Publishers {
  /** Numbers of the deliveries taken so far. */
  readonly taken: readonly string[];
  /** How often a delivery was not taken at once. */
  readonly refused: number;
  /** Resolves when every delivery sent is taken; returns their numbers. */
  stop(): Promise<readonly string[]>;
}

export interface ClusterOptions {
  readonly env?: Record<string, string>;
  /** The folder of the replicas' build; by default this checkout. */
  readonly build?: string;
}

/** Replicas on one new schema, not started yet. */
export async function createCluster(
  url: string,
  {
    size,
    steps,
    flow,
    env = {},
    build: ownBuild,
    names = Array.from({ length: size }, (_, index) => `replica-${index + 1}`),
  }: ClusterOptions & { size: number; steps?: object; flow?: object; names?: readonly string[] },
): Promise<Cluster> {
  const schema = `cluster_${randomUUID().replaceAll('-', '')}`;
  const workspace = await createWorkspace();
  await workspace.writeManifest('push.json', githubManifest({ ...(flow && { flow }), ...(steps && { steps }) }));
  const replicas = names.map(createReplica);
  onTestFinished(async () => {
    await Promise.all(replicas.map((replica) => replica.stop('SIGKILL')));
    await workspace.remove();
    await dropSchema(schema, url).catch(() => {});
  });

  function createReplica(name: string): Replica {
    let service: Service | null = null;
    return {
      name,
      get service() {
        return service;
      },
      async start(build = ownBuild) {
        const settings = {
          SLUICE_DATABASE_URL: url,
          SLUICE_DATABASE_SCHEMA: schema,
          SLUICE_REPLICA_NAME: name,
          SLUICE_ENFORCEMENT_MODE: 'Enforce',
          SLUICE_DRAIN_SECONDS: '0',
          SLUICE_LOG_LEVEL: 'warn',
          ...env,
        };
        service ??= await startService(workspace, settings, build);
      },
      async stop(signal) {
        const stopped = service;
        service = null;
        // A paused process receives no other signal.
        if (stopped !== null) await stopped.stop(signal);
      },
    };
  }

  return { schema, replicas, publish: () => publishTo(replicas) };
}

const CONNECTIONS = 6;

function publishTo(replicas: readonly Replica[]): Publishers {
  const taken: string[] = [];
  let refused = 0;
  let isStopping = false;
  let turn = 0;
  const next = (): Service | undefined => {
    const running = replicas.flatMap(({ service }) => (service === null ? [] : [service]));
    turn += 1;
    return running[turn % Math.max(1, running.length)];
  };
  const publisher = async () => {
    while (!isStopping) {
      const delivery = randomUUID();
      while (!(await isTaken(next(), delivery))) {
        refused += 1;
        await wait(50);
      }
      taken.push(delivery);
    }
  };
  const publishers = Array.from({ length: CONNECTIONS }, publisher);
  return {
    taken,
    get refused() {
      return refused;
    },
    async stop() {
      isStopping = true;
      await Promise.all(publishers);
      return taken;
    },
  };
}

/** Whether the delivery has its run, from this answer or from an earlier one that was lost. */
export async function isTaken(
  service: Service | null | undefined,
  delivery: string,
  content: object = { delivery },
): Promise<boolean> {
  if (service === undefined || service === null) return false;
  const body = JSON.stringify(content);
  const signature = createHmac('sha256', GITHUB_SECRET).update(body).digest('hex');
  try {
    const response = await fetch(`${service.url}/flows/api/webhook/push`, {
      method: 'POST',
      headers: {
        'content-type': 'application/json',
        'x-hub-signature-256': `sha256=${signature}`,
        'x-github-delivery': delivery,
      },
      body,
      signal: AbortSignal.timeout(8000),
    });
    await response.arrayBuffer();
    if (response.status === 200 || response.status === 409) return true;
    if (response.status === 503) return false;
    throw new Error(`a delivery was answered ${response.status}`);
  } catch (error) {
    if (error instanceof Error && error.message.startsWith('a delivery')) throw error;
    return false;
  }
}
