import { CommandError } from '../../commands/context.ts';
import { clientOf, NoAnswerError, type ServiceOptions } from '../../commands/service-client.ts';
import type { Settings } from '../../config/settings-schema.ts';
import type { DeployOutcome } from '../../model/finding.ts';
import { commandHere } from '../../version.ts';

/**
 * Has the service deploy a flow that was just written into its folder, and says what became of it; undefined where none answers.
 * What else changed in the folder is somebody's work, so then nothing is deployed.
 */
export async function deployNew(
  flowId: string,
  options: ServiceOptions,
  settings: Settings,
): Promise<string | undefined> {
  // The service of these settings takes any free port.
  if (options.to === undefined && settings.port === 0) return undefined;
  const reload = `${commandHere()} reload`;
  try {
    const client = await clientOf(options, settings);
    const ask = async (isPlan: boolean) => {
      const path = `/flows/api/flows/reload?dryRun=${isPlan}`;
      const { body } = await client.ask({ method: 'POST', path, body: '{}', accepts: [400, 409] });
      return body as Reloaded;
    };
    // Without the key that was just written: a dry run reads no `.env`.
    const { outcomes = [], unreadable = [] } = await ask(true);
    const changed = outcomes.filter(({ action }) => action !== 'unchanged');
    const others = [...changed, ...unreadable].some((each) => each.flowId !== flowId);
    if (![...outcomes, ...unreadable].some((each) => each.flowId === flowId)) {
      return `Not deployed: the service that answers does not read this folder, or refuses all of it; ${commandHere()} deploy says more.`;
    }
    if (others) {
      return `Not deployed: other manifests of the folder changed too, or cannot be read; ${reload} deploys them together.`;
    }
    const answer = await ask(false);
    const own = answer.outcomes?.find((outcome) => outcome.flowId === flowId);
    if (own !== undefined && own.refusal === null)
      return `Deployed by the service that answers, as revision ${own.revision}.`;
    const why = own?.refusal ?? answer.unreadable?.find((each) => each.flowId === flowId)?.why;
    return `Not deployed: ${why ?? 'the service did not find it'}; then: ${reload}`;
  } catch (error) {
    if (error instanceof NoAnswerError) return undefined;
    if (error instanceof CommandError) return `Not deployed: ${error.message}; then: ${reload}`;
    throw error;
  }
}

interface Reloaded {
  readonly outcomes?: readonly DeployOutcome[];
  readonly unreadable?: readonly { readonly flowId: string | null; readonly why: string }[];
}
