import { z } from 'zod';
import { HttpError } from '../../errors.ts';
import { CIRCUIT_STATES, isNotable } from '../../flows/circuit.ts';
import type { HostState } from '../../flows/hosts.ts';
import { field, isoTime, outcomeSchema } from '../answer.ts';
import { parameter } from '../input.ts';
import { route } from '../route.ts';
import type { ApiRoutes } from '../services.ts';

export const hostSchema = z
  .object({
    origin: z.string().describe('Scheme, host and port.'),
    state: z
      .enum(CIRCUIT_STATES)
      .describe(
        'open: steps wait; probing: one request tries the host; recovering: it is back and called slowly; failing: it is called, but the last call failed.',
      ),
    openSince: field.time().nullable(),
    why: z.string().nullable().describe('Why it is open, in words.'),
    nextTryAt: field
      .time()
      .nullable()
      .describe('When the next request is sent, if steps wait; null if it is not open.'),
    failuresInRow: field.integer(),
    lastError: z
      .object({ at: field.time(), error: z.string() })
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
export const hostRoutes: ApiRoutes = (app, { hosts }) => {
  app.get(
    '/flows/api/hosts',
    route('service', {
      operationId: 'listHosts',
      summary:
        'The hosts that steps call, with limits, waiting steps and circuits: open circuits first, then failing hosts',
      answer: z.array(hostSchema),
    }),
    async () => {
      const views = (await hosts.list()).map(hostView);
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
      summary:
        'Closes the open circuit of a host: it is called again, slowly at first; the circuit opens again if the host fails',
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

function hostView({ origin, circuit, state, why, limits, lastError, ...host }: HostState): HostView {
  const open = circuit.phase === 'open' ? circuit : undefined;
  return {
    origin,
    state,
    openSince: open === undefined ? null : isoTime(open.since),
    why,
    nextTryAt: open === undefined ? null : isoTime(open.probeAt),
    failuresInRow: circuit.failures,
    lastError: lastError && { at: isoTime(lastError.at), error: lastError.error },
    limitPerSecond: limits.perSecond ?? null,
    limitAtOnce: limits.atOnce ?? null,
    requestsPerSecond: host.requestsPerSecond,
    requestsInFlight: host.inFlight,
    waitingSteps: host.waitingSteps,
  };
}

/**
 * What operators are told about hosts with open circuits. A host that nothing waits for is reported until its first
 * try, because its failures were failures of steps.
 */
export function openCircuits({ hosts, now }: { readonly hosts: readonly HostState[]; readonly now: number }) {
  const concern = { kind: 'circuit_open', severity: 'warning' } as const;
  return hosts.flatMap(({ origin, circuit, why, waitingSteps }) => {
    if (circuit.phase !== 'open' || !isNotable(circuit)) return [];
    if (waitingSteps === 0 && circuit.probeAt <= now) return [];
    const waits = waitingSteps === 1 ? '1 step waits' : `${waitingSteps} steps wait`;
    const next = circuit.probeAt > now ? `at ${isoTime(circuit.probeAt).replace(/\.\d+Z$/, 'Z')}` : 'now';
    const advice = circuit.why === 'failed' ? '; check whether it is up' : '';
    const reason = (why ?? '').replace(/^./, (first) => first.toUpperCase());
    const message = `${reason}. ${waits}; the next try is ${next}${advice}`;
    return [{ ...concern, message, link: `/flows/hosts?host=${encodeURIComponent(origin)}` }];
  });
}
