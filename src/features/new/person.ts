import type { Readable, Writable } from 'node:stream';
import { CommandError } from '../../commands/context.ts';
import { beginsWith } from '../../model/plain-name.ts';

/** Somebody who answers questions. Rejects with `CommandError` if they leave. */
export interface Person {
  /** Lets the person type to find a choice. */
  choose<Value>(message: string, choices: readonly Choice<Value>[]): Promise<Value>;
  /** Asks again until `mistakeIn` finds none; an empty answer accepts the proposal. */
  enter(message: string, proposal: string, mistakeIn: (text: string) => string | undefined): Promise<string>;
  confirm(message: string): Promise<boolean>;
}

export interface Choice<Value> {
  readonly value: Value;
  readonly label: string;
  readonly hint?: string;
  /** Other names that find it. */
  readonly names?: readonly string[];
}

/** Asks at a terminal; by default with the streams of the process. */
export async function atTerminal(given: { input?: Readable; output?: Writable } = {}): Promise<Person> {
  // Loaded only here, because no other command asks questions.
  const { autocomplete, confirm, isCancel, select, text } = await import('@clack/prompts');
  // The prompts ignore Ctrl-D, with which a terminal ends its input, and then wait for ever.
  const leaving = new AbortController();
  const { input = process.stdin } = given;
  input.on('keypress', (_, { ctrl, name }: { ctrl?: boolean; name?: string }) => {
    if (ctrl === true && name === 'd') leaving.abort();
  });
  input.on('end', () => leaving.abort());
  const streams = { ...given, signal: leaving.signal };
  const answered = <Answer>(answer: Answer | symbol): Answer => {
    if (isCancel(answer)) throw new CommandError('Nothing was written');
    return answer as Answer;
  };
  return {
    async choose(message, choices) {
      // Uses the index of a choice, because its value can have any type.
      const options = choices.map(({ label, hint }, value) => ({
        value,
        label,
        ...(hint === undefined ? {} : { hint }),
      }));
      const isFound = (search: string, { value }: { value: number }) => {
        const { label = '', names = [] } = choices[value] ?? {};
        return beginsWith([label, ...names], search);
      };
      const asked =
        choices.length > MAX_WITHOUT_SEARCH
          ? autocomplete({ message, options, filter: isFound, maxItems: 8, ...streams })
          : select({ message, options, ...streams });
      const choice = choices[answered<number>(await asked)];
      if (choice === undefined) throw new CommandError('Nothing was written');
      return choice.value;
    },
    async enter(message, proposal, mistakeIn) {
      const validate = (given: string | undefined) => mistakeIn(given?.trim() || proposal);
      const shown = proposal === '' ? {} : { placeholder: proposal, defaultValue: proposal };
      return answered<string>(await text({ message, ...shown, validate, ...streams })).trim();
    },
    confirm: async (message) => answered<boolean>(await confirm({ message, ...streams })),
  };
}

/** Longer lists are searched by typing. */
const MAX_WITHOUT_SEARCH = 5;
