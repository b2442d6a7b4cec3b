import { stepPart } from '../../config/step-part.ts';
import type { JsonPath } from '../../expressions/json-path.ts';
import { createEgress, EgressRefusedError } from '../../flows/handlers/egress.ts';
import { type Problem, warningAt } from '../../manifest/issues.ts';
import type { ManifestRules } from '../../manifest/load.ts';
import type { Json } from '../../model/json.ts';
import { everyStep, type StepDefinition } from '../../model/manifest.ts';
import { circuitOf, circuitText } from './circuit.ts';
import { Hosts } from './hosts.ts';
import { REQUEST_SECONDS } from './http-inputs.ts';
import { createHttpRequestHandler } from './http-request.ts';
import { hostWaitIn } from './http-turns.ts';
import { rehearsedRequest } from './rehearsed.ts';
import { httpRequestStore } from './store.ts';

const whyWaiting = (state: Json | undefined): string | undefined => hostWaitIn(state)?.why;

/** The time limit in the inputs, or the usual one if they have none. */
function mostSeconds(inputs: Json): number {
  const own: unknown = Reflect.get(Object(inputs), 'timeoutSeconds');
  return typeof own === 'number' ? own : REQUEST_SECONDS;
}

/** Warns of requests that egress will refuse. */
function targetChecks(settings: { readonly egressAllow: readonly string[] }): ManifestRules['checks'][number] {
  const egress = createEgress(settings.egressAllow);
  return ({ manifest: { steps } }) =>
    everyStep(steps).flatMap(({ step, at }) =>
      step.type === 'HttpRequest' ? checkTarget(step, [...at, 'inputs', 'url'], egress) : [],
    );
}

function checkTarget(
  { inputs: { url } }: StepDefinition,
  at: JsonPath,
  egress: ReturnType<typeof createEgress>,
): Problem[] {
  // A URL from a secret or an expression is known only when the step runs, and is checked then.
  const host = typeof url === 'string' && URL.canParse(url) ? new URL(url).hostname : '';
  try {
    egress.checkLiteral(host);
    if (isThisMachine(host)) egress.permitted(host, [{ address: '127.0.0.1', family: 4 }]);
    return [];
  } catch (error) {
    if (!(error instanceof EgressRefusedError)) throw error;
    return [warningAt(at, `will be refused: ${error.message}`)];
  }
}

/** RFC 6761: these names never leave the machine. */
function isThisMachine(host: string): boolean {
  return /^(.+\.)?localhost\.?$/i.test(host);
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
        // Open circuits stay open after a restart.
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
