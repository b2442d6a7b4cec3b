import { stepPart } from '../../config/step-part.ts';
import type { Json } from '../../model/json.ts';
import { circuitOf, circuitText } from './circuit.ts';
import { Hosts } from './hosts.ts';
import { REQUEST_SECONDS } from './http-inputs.ts';
import { createHttpRequestHandler } from './http-request.ts';
import { hostWaitIn } from './http-turns.ts';
import { rehearsedRequest } from './rehearsed.ts';
import { httpRequestStore } from './store.ts';
import { targetChecks } from './target-checks.ts';

const whyWaiting = (state: Json | undefined): string | undefined => hostWaitIn(state)?.why;

/** By the inputs, which have nothing of it where the request has its usual time. */
function mostSeconds(inputs: Json): number {
  const own: unknown = Reflect.get(Object(inputs), 'timeoutSeconds');
  return typeof own === 'number' ? own : REQUEST_SECONDS;
}

/** `HttpRequest`, and the hosts that it calls. */
export const httpRequestStepTypes = stepPart({
  name: 'http-request',
  make({ settings, clock, cluster }) {
    const { outgoingHosts = [], circuitFailures = 0 } = settings;
    const hosts = new Hosts({ settings: { outgoingHosts, circuitFailures }, clock, cluster });
    return {
      handlers: [
        { ...createHttpRequestHandler({ ...settings, hosts }), whyWaiting, mostSeconds, rehearsed: rehearsedRequest },
      ],
      checks: [targetChecks(settings)],
      made: hosts,
      atWork: {
        connect: ({ store, ...runtime }) =>
          hosts.connect({ ...runtime, store: { ...store.of(httpRequestStore), replica: store.replica } }),
        // A circuit that was open stays open.
        start: () => hosts.start(),
        stop: () => hosts.stop(),
      },
      async hostWaits() {
        const states = await hosts.list();
        return ({ host, ...step }) => {
          const { circuits = [] } = states.find(({ origin }) => origin === host) ?? {};
          const circuit = circuitOf(step, circuits);
          return circuit && { why: circuitText(host, circuit), until: circuit.until };
        };
      },
    };
  },
});
