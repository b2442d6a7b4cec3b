import { z } from 'zod';
import { field, isoTime, outcomeSchema } from '../../dashboard/answer.ts';
import type { Finding, Situation } from '../../dashboard/attention/finding.ts';
import { parameter } from '../../dashboard/input.ts';
import { route } from '../../dashboard/route.ts';
import { type ApiRoutes, rulesFor, servicePart } from '../../dashboard/services.ts';
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

/**
 * What operators are told about hosts with open circuits. A host that nothing waits for is reported until its first
 * try, because its failures were failures of steps.
 */
export function openCircuits(all: readonly HostState[], { now }: Pick<Situation, 'now'>): Finding<'circuit_open'>[] {
  return all.flatMap(({ origin, circuits: [circuit], waitingSteps }) => {
    if (circuit === undefined || !isNotable(circuit)) return [];
    if (waitingSteps === 0 && circuit.until <= now) return [];
    const waits = waitingSteps === 1 ? '1 step waits' : `${waitingSteps} steps wait`;
    const next = circuit.until > now ? `at ${isoTime(circuit.until).replace(/\.\d+Z$/, 'Z')}` : 'now';
    const advice = circuit.why === 'failed' ? '; check whether it is up' : '';
    const reason = circuitText(origin, circuit).replace(/^./, (first) => first.toUpperCase());
    const message = `${reason}. ${waits}; the next try is ${next}${advice}`;
    const link = `/flows/hosts?host=${encodeURIComponent(origin)}`;
    return [{ kind: 'circuit_open' as const, message, link, flowId: null }];
  });
}

export const hosts = servicePart({
  name: 'hosts',
  routes: [hostRoutes],
  attention: rulesFor(hostsAttention, async (situation, services) =>
    openCircuits(await services.extensions.of(httpRequestStepTypes).list(), situation),
  ),
});
