import { z } from 'zod';
import { field, isoTime, outcomeSchema } from '../../dashboard/answer.ts';
import { type Finding, iso, nameOf, type Situation } from '../../dashboard/attention/finding.ts';
import { parameter } from '../../dashboard/input.ts';
import { route } from '../../dashboard/route.ts';
import { type ApiRoutes, type DashboardServices, rulesFor, servicePart } from '../../dashboard/services.ts';
import { HttpError } from '../../errors.ts';
import { circuitText, isNotable, type OpenCircuit } from '../http-request/circuit.ts';
import type { HostState } from '../http-request/hosts.ts';
import { httpRequestStepTypes } from '../http-request/step-types.ts';
import { hostsAttention } from './attention.ts';

const openFields = {
  openSince: field.time().nullable(),
  why: field.content(z.string().nullable()).describe('Why it is open, in words.'),
  nextTryAt: field.time().nullable().describe('When the next request is sent, if steps wait; null if it is not open.'),
  failuresInRow: field.integer(),
};

export const hostSchema = z
  .object({
    origin: z.string().describe('Scheme, host and port.'),
    state: z
      .enum(['closed', 'open', 'probing', 'failing'])
      .describe(
        'open: steps wait; probing: one request tries the host; failing: it is called, but the last call failed.',
      ),
    ...openFields,
    circuits: z
      .array(
        z.object({
          caller: z
            .string()
            .nullable()
            .describe('Which steps wait: those of this step of a flow, with these secret references; null for all.'),
          ...openFields,
        }),
      )
      .describe('The circuits that are not closed. The fields of the host are those of the first.'),
    lastError: z
      .object({ at: field.time(), error: field.content(z.string()) })
      .nullable()
      .describe('The last error that this process got, or else the error that opened the stored circuit.'),
    limitPerSecond: z.number().nullable(),
    limitAtOnce: field.integer().nullable(),
    requestsPerSecond: z.number().describe('From this process, over the last ten seconds.'),
    requestsInFlight: field.integer().describe('Of this process.'),
    waitingSteps: field.integer().describe('In all processes; at most 10000 are counted.'),
  })
  .meta({ id: 'Host' });

/** The hosts that HttpRequest steps call. */
const hostRoutes: ApiRoutes = (app, { extensions, clock }) => {
  const hosts = extensions.of(httpRequestStepTypes);
  app.get(
    '/flows/api/hosts',
    route('service', {
      operationId: 'listHosts',
      limit: 'refused',
      summary:
        'The hosts that steps call, with limits, waiting steps and circuits: open circuits first, then failing hosts',
      answer: z.array(hostSchema),
    }),
    async () => {
      const now = clock.now();
      const views = (await hosts.list()).map((host) => hostView(host, now));
      const rank = ({ state, waitingSteps }: HostView) => {
        if (state === 'failing') return 1;
        if (state !== 'closed') return 0;
        return waitingSteps > 0 ? 2 : 3;
      };
      return views.sort(
        (a, b) => rank(a) - rank(b) || b.waitingSteps - a.waitingSteps || (a.origin < b.origin ? -1 : 1),
      );
    },
  );

  app.post(
    '/flows/api/hosts/:origin/close-circuit',
    route('service', {
      operationId: 'closeCircuit',
      limit: 'refused',
      summary: 'Closes the open circuits of a host: it is called again; a circuit opens again if the host fails',
      params: z.object({ origin: parameter.requiredText(200, 'an origin such as https://api.example.com') }),
      answer: outcomeSchema,
      refusals: [404],
    }),
    async ({ params: { origin } }) => {
      if (await hosts.closeCircuit(origin)) return { success: true, message: 'The host is called again' };
      throw new HttpError('unknown_host', `No host ${JSON.stringify(origin)} has an open circuit`);
    },
  );
};

type HostView = z.output<typeof hostSchema>;

function hostView(
  { origin, circuits, failures, limits, lastError, isFailing, ...host }: HostState,
  now: number,
): HostView {
  const [first] = circuits;
  const closed = { openSince: null, why: null, nextTryAt: null, failuresInRow: failures };
  return {
    origin,
    state: first === undefined ? (isFailing ? 'failing' : 'closed') : first.until > now ? first.state : 'open',
    ...(first === undefined ? closed : openView(origin, first)),
    circuits: circuits.map((circuit) => ({ caller: circuit.caller, ...openView(origin, circuit) })),
    lastError: lastError && { at: isoTime(lastError.at), error: lastError.error },
    limitPerSecond: limits.perSecond ?? null,
    limitAtOnce: limits.atOnce ?? null,
    requestsPerSecond: host.requestsPerSecond,
    requestsInFlight: host.inFlight,
    waitingSteps: host.waitingSteps,
  };
}

function openView(origin: string, circuit: OpenCircuit) {
  const { since, until, failures } = circuit;
  return {
    openSince: isoTime(since),
    why: circuitText(origin, circuit),
    nextTryAt: isoTime(until),
    failuresInRow: failures,
  };
}

/** The number of waiting runs by origin and flow, among the newest runs that wait for a host. */
type Waiting = ReadonlyMap<string, ReadonlyMap<string, number>>;

const WAITING_RUNS = 200;

async function waitingRuns({ store }: Pick<DashboardServices, 'store'>, now: number): Promise<Waiting> {
  const waiting = { kind: 'host', dueBefore: now } as const;
  const { items } = await store.listRuns({ skip: 0, take: WAITING_RUNS, waiting });
  const flowOf = new Map(items.map(({ id, flowId }) => [id, flowId]));
  const counts = new Map<string, Map<string, number>>();
  if (items.length === 0) return counts;
  const { waits } = await store.describeRuns({ running: [...flowOf.keys()], ended: [], dueBefore: now });
  for (const { runId, host } of waits) {
    const flowId = flowOf.get(runId);
    if (host === null || flowId === undefined) continue;
    const ofHost = counts.get(host) ?? new Map<string, number>();
    counts.set(host, ofHost.set(flowId, (ofHost.get(flowId) ?? 0) + 1));
  }
  return counts;
}

/**
 * Reports hosts with open circuits: once for each flow whose runs wait, so that its owners hear of it. A host without
 * waiting steps is reported until its first try, because its failures were failures of steps.
 */
export function openCircuits(
  all: readonly HostState[],
  { now, flows }: Pick<Situation, 'now' | 'flows'>,
  waiting: Waiting = new Map(),
): Finding<'circuit_open'>[] {
  return all.flatMap(({ origin, circuits, waitingSteps }) => {
    const runs = [...(waiting.get(origin) ?? [])];
    const causes = causesIn(circuits.filter(isNotable));
    return [...causes].flatMap(([ofFlow, circuit]) => {
      const theirs = runs.filter(([flowId]) => (ofFlow === null ? !causes.has(flowId) : flowId === ofFlow));
      // Steps of other flows wait for the same host.
      const steps = runs.length === 0 ? waitingSteps : 0;
      if (theirs.length === 0 && steps === 0 && circuit.until <= now) return [];
      const next = circuit.until > now ? iso(circuit.until) : 'now';
      const advice = circuit.why === 'failed' ? '; check whether it is up' : '';
      const named = ofFlow === null ? circuit.caller : (circuit.caller?.replace(ofFlow, nameOf(ofFlow, flows)) ?? null);
      const found = (waits: string, flowId: string | null) => ({
        kind: 'circuit_open' as const,
        message: `${circuitText(origin, { ...circuit, caller: named })}; ${waits}; next try ${next}${advice}`,
        link: `/flows/hosts?host=${encodeURIComponent(origin)}`,
        flowId,
      });
      if (theirs.length === 0) return [found(stepsWait(steps), ofFlow)];
      return theirs.map(([flowId, count]) => {
        const wait =
          count === 1 ? `1 run of ${nameOf(flowId, flows)} waits` : `${count} runs of ${nameOf(flowId, flows)} wait`;
        return found(count === WAITING_RUNS ? `at least ${wait}` : wait, flowId);
      });
    });
  });
}

const stepsWait = (count: number) =>
  count === 0 ? 'no step waits' : count === 1 ? '1 step waits' : `${count} steps wait`;

/**
 * Of a host's open circuits the longest of each flow, and by null the longest for all requests: every step waits for that,
 * so those that end before it say nothing.
 */
function causesIn(circuits: readonly OpenCircuit[]): ReadonlyMap<string | null, OpenCircuit> {
  const longest = new Map<string | null, OpenCircuit>();
  for (const circuit of circuits.toSorted((a, b) => b.until - a.until)) {
    if (!longest.has(flowOf(circuit))) longest.set(flowOf(circuit), circuit);
  }
  const forAll = longest.get(null)?.until ?? 0;
  return new Map([...longest].filter(([flowId, { until }]) => flowId === null || until > forAll));
}

/** The flow whose step the circuit is for; null if it is for all requests. */
function flowOf({ caller }: OpenCircuit): string | null {
  return / of flow ([0-9a-f-]{36})/.exec(caller ?? '')?.[1] ?? null;
}

export const hosts = servicePart({
  name: 'hosts',
  routes: [hostRoutes],
  attention: rulesFor(hostsAttention, async (situation, services) => {
    const all = await services.extensions.of(httpRequestStepTypes).list();
    const isAsked = all.some(({ circuits, waitingSteps }) => circuits.length > 0 && waitingSteps > 0);
    return openCircuits(all, situation, isAsked ? await waitingRuns(services, situation.now) : undefined);
  }),
});
