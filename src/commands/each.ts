import { printable } from '../model/text.ts';
import { print, printError } from '../telemetry/terminal.ts';
import { CommandError, printJson } from './context.ts';
import { isId, RefusedError } from './service-client.ts';

/** The result of an action on one item. */
interface Done {
  readonly isDone: boolean;
  readonly message: string;
}

/**
 * Does the same for each id, one after the other, and prints the results. If the service refuses one by a rule, the
 * others follow, and the command exits with 1; if one does not exist, with 2. Throws `CommandError` if a text is not an
 * id, before anything is done.
 */
export async function doToEach(
  ids: readonly string[],
  act: (id: string) => Promise<Done>,
  { json }: { readonly json?: true },
): Promise<void> {
  const wrong = ids.find((id) => !isId(id));
  if (wrong !== undefined) throw new CommandError(`"${wrong}" is not an id`);
  const told: { id: string; outcome: 'done' | 'refused' | 'unknown'; message: string }[] = [];
  try {
    for (const id of ids) {
      const entry = { id, ...(await outcomeOf(id, act)) };
      told.push(entry);
      if (!json) print(`${id}  ${entry.outcome === 'refused' ? 'not done: ' : ''}${printable(entry.message)}\n`);
    }
  } finally {
    if (json) printJson(told);
  }
  const isAny = (outcome: string) => told.some((entry) => entry.outcome === outcome);
  process.exitCode = isAny('unknown') ? 2 : isAny('refused') ? 1 : 0;
}

/** Exits with 1 and prints the reason if the service refuses the request by a rule. */
export function endingRefusals<Args extends unknown[]>(action: (...args: Args) => Promise<void>) {
  return async (...args: Args): Promise<void> => {
    try {
      await action(...args);
    } catch (error) {
      if (!(error instanceof RefusedError) || !error.isRule) throw error;
      printError(`${error.why}\n`);
      process.exitCode = 1;
    }
  };
}

async function outcomeOf(id: string, act: (id: string) => Promise<Done>) {
  try {
    const { isDone, message } = await act(id);
    return { outcome: isDone ? ('done' as const) : ('refused' as const), message };
  } catch (error) {
    if (!(error instanceof RefusedError) || !(error.isUnknown || error.isRule)) throw error;
    return { outcome: error.isUnknown ? ('unknown' as const) : ('refused' as const), message: error.why };
  }
}
