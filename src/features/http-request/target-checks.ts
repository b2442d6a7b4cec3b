import type { JsonPath } from '../../expressions/json-path.ts';
import { createEgress, EgressRefusedError } from '../../flows/handlers/egress.ts';
import { type Problem, warningAt } from '../../manifest/issues.ts';
import type { ManifestRules } from '../../manifest/load.ts';
import { everyStep, type StepDefinition } from '../../model/manifest.ts';

/** Warns of requests that egress will refuse. */
export function targetChecks(settings: { readonly egressAllow: readonly string[] }): ManifestRules['checks'][number] {
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
  // A URL that a secret or an expression names is known when the step runs, and checked then.
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
