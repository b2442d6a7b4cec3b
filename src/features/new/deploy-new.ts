import { CommandError } from '../../commands/context.ts';
import { clientOf, NoAnswerError, type ServiceOptions } from '../../commands/service-client.ts';
import type { Settings } from '../../config/settings-schema.ts';
import { commandHere } from '../../version.ts';
import { askReload } from '../deploys/command.ts';

/**
 * Asks the service to deploy a flow just written into its folder, and yields the result as a message; undefined if no
 * service answers. If other files of the folder changed, deploys nothing: they are somebody's work.
 */
export async function deployNew(
  flowId: string,
  options: ServiceOptions,
  settings: Settings,
): Promise<string | undefined> {
  // With these settings, the service listens on any free port.
  if (options.to === undefined && settings.port === 0) return undefined;
  const reload = `${commandHere()} reload`;
  try {
    const client = await clientOf(options, settings);
    // The plan lacks the new key, because a dry run does not read `.env`.
    const { outcomes = [], unreadable = [] } = (await askReload(client, { isPlan: true })).body;
    const changed = outcomes.filter(({ action }) => action !== 'unchanged');
    const hasOthers = [...changed, ...unreadable].some((each) => each.flowId !== flowId);
    if (![...outcomes, ...unreadable].some((each) => each.flowId === flowId)) {
      return `Not deployed: the service that answers does not read this folder, or refuses all of it; ${commandHere()} deploy says more.`;
    }
    if (hasOthers) {
      return `Not deployed: other manifests of the folder changed too, or cannot be read; ${reload} deploys them together.`;
    }
    const { body: answer } = await askReload(client, { isPlan: false });
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
