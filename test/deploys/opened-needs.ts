import { stepTypes } from '../../src/config/steps.ts';
import { handlerTable } from '../../src/flows/handlers/index.ts';
import { literalsOf } from '../../src/manifest/literals.ts';
import type { LoadedFlow } from '../../src/manifest/load.ts';
import type { OpenedNeeds } from '../../src/manifest/stored.ts';

const handlers = handlerTable(stepTypes().handlers);

/** All that a revision of the flow needs, as if none of it were lost. */
export function openedNeeds({ manifest, files, webhooks }: LoadedFlow): OpenedNeeds {
  const literals = literalsOf(manifest, (stepType) => handlers.get(stepType)?.secretInputs ?? []);
  return { files, literals, lost: [], signed: webhooks.map(({ triggerKey }) => triggerKey) };
}
