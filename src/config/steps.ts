import { stepParts } from '../features/step-types.ts';
import { builtInHandlers } from '../flows/handlers/index.ts';
import type { ServedHandler } from '../flows/handlers/outside.ts';
import type { DescribeHostWait, StepsAtWork } from '../flows/steps-at-work.ts';
import type { WaitLinks } from '../flows/wait-links.ts';
import type { ManifestRules } from '../manifest/load.ts';
import type { MadeSteps, StepHost, StepPart } from './step-part.ts';

/** The step types of every installation, and everything else from their parts. */
export interface PreparedSteps {
  readonly handlers: readonly ServedHandler[];
  readonly checks: ManifestRules['checks'];
  readonly atWork: readonly StepsAtWork[];
  readonly waits: WaitLinks | undefined;
  readonly hostWaits: () => Promise<DescribeHostWait>;
  /** What a part provides to other features; the part must be in `features/step-types.ts`. */
  of<Made>(part: StepPart<Made>): Made;
}

export function prepareSteps(host: StepHost): PreparedSteps {
  const made = new Map(stepParts.map((part): [StepPart, MadeSteps<unknown>] => [part, part.make(host)]));
  const all = [...made.values()];
  return {
    handlers: [...builtInHandlers, ...all.flatMap(({ handlers }) => handlers)],
    checks: all.flatMap(({ checks = [] }) => checks),
    atWork: all.flatMap(({ atWork = [] }) => atWork),
    waits: all.find(({ waits }) => waits !== undefined)?.waits,
    async hostWaits() {
      const describe = await Promise.all(all.map(({ hostWaits }) => hostWaits?.()));
      return (step) => describe.map((each) => each?.(step)).find((found) => found !== undefined);
    },
    of<Made>(part: StepPart<Made>): Made {
      const own = made.get(part);
      if (own === undefined) throw new Error(`The part ${part.name} is not in the list of step parts.`);
      return own.made as Made;
    },
  };
}

/** The step types outside of a service. */
export function stepTypes({ egressAllow = [] }: { readonly egressAllow?: readonly string[] } = {}): PreparedSteps {
  const settings = { egressAllow: [...egressAllow], serviceName: '' };
  return prepareSteps({
    settings,
    clock: { now: () => Date.now(), monotonic: () => performance.now() },
    readSecret: () => ({ error: 'no secret is read here' }),
    inForce: () => settings,
  });
}
