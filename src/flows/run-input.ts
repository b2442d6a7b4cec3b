import type { Reference } from '../expressions/references.ts';
import { MAX_INPUT_BYTES } from '../model/run.ts';
import type { Claim, LargeRunInput, RunInput, Store } from '../store/store.ts';
import type { Catalog } from './catalog.ts';
import { stepKeysRead } from './expression-context.ts';
import { StepFailure } from './step-failure.ts';

/**
 * Reads what started the run, and what the steps left that these references name. Throws `StepFailure` where that is
 * more than a step may read, the signal's reason where that aborts first, and what the store throws.
 */
export type ReadRunInput = (references: readonly Reference[]) => Promise<RunInput>;

/** What one attempt reads. */
export interface AttemptInput {
  readonly read: ReadRunInput;
  /** Lets the next one read, once nothing of what was read is in use. */
  release(): void;
}

/** So much is read at once and without asking: next to every step reads less. */
const SMALL_BYTES = 1024 * 1024;
/** What is larger than small waits until so much is left of what all steps together may hold. */
const SHARED_BYTES = 32 * 1024 * 1024;

/** Makes what attempts read with. Dozens run at once: each may hold a whole loop's output, but not all of them together. */
export function createRunInputs({
  store,
  catalog,
}: {
  readonly store: Pick<Store, 'readRunInput'>;
  readonly catalog: Pick<Catalog, 'graph'>;
}): (claim: Claim, signal: AbortSignal) => AttemptInput {
  const shared = new SharedBytes(SHARED_BYTES);
  return (claim, signal) => {
    const { flowId, revision, runId, stepKey } = claim;
    let known: { readonly keys: ReadonlySet<string>; readonly input: RunInput } | undefined;
    let held = 0;
    const release = () => {
      shared.give(held);
      held = 0;
    };
    const read = async (stepKeys: readonly string[]): Promise<RunInput> => {
      for (let maxBytes = SMALL_BYTES; ; ) {
        const found = await store.readRunInput({ runId, stepKeys, maxBytes });
        if (found === undefined) throw new Error(`the run ${runId} is not in the store`);
        if (found.kind === undefined) return found;
        maxBytes = bytesOf(found);
        // Nobody waits for more while it holds some: all would wait for each other.
        release();
        held = await shared.take(maxBytes, signal);
      }
    };
    return {
      async read(references) {
        const keys = stepKeysRead(await catalog.graph(flowId, revision), stepKey, references);
        if (known !== undefined && keys.every((key) => known?.keys.has(key))) return known.input;
        const { trigger, steps } = await read(keys);
        // The first reading's trigger, for its body is parsed once.
        known = { keys: new Set(keys), input: { trigger: known?.input.trigger ?? trigger, steps } };
        return known.input;
      },
      release,
    };
  };
}

function bytesOf({ bodyBytes, outputBytes }: LargeRunInput): number {
  if (outputBytes <= MAX_INPUT_BYTES) return bodyBytes + outputBytes;
  throw new StepFailure(
    'input_too_large',
    `the steps that its expressions read left ${outputBytes} bytes as JSON; at most ${MAX_INPUT_BYTES} are read`,
  );
}

/** A number of bytes that is shared: whoever asks waits, in turn, until there are as many. */
class SharedBytes {
  readonly #size: number;
  #left: number;
  readonly #waiting: { readonly bytes: number; go(): void }[] = [];

  constructor(size: number) {
    this.#size = size;
    this.#left = size;
  }

  /** Yields how much was taken: what is larger than all there is takes all. Rejects when the signal aborts first. */
  async take(asked: number, signal: AbortSignal): Promise<number> {
    const bytes = Math.min(asked, this.#size);
    if (this.#waiting.length === 0 && bytes <= this.#left) {
      this.#left -= bytes;
      return bytes;
    }
    await new Promise<void>((resolve, reject) => {
      const entry = {
        bytes,
        go: () => {
          signal.removeEventListener('abort', stop);
          resolve();
        },
      };
      const stop = () => {
        this.#waiting.splice(this.#waiting.indexOf(entry), 1);
        this.#next();
        reject(signal.reason);
      };
      if (signal.aborted) return reject(signal.reason);
      this.#waiting.push(entry);
      signal.addEventListener('abort', stop, { once: true });
    });
    return bytes;
  }

  give(bytes: number): void {
    this.#left += bytes;
    this.#next();
  }

  #next(): void {
    for (let first = this.#waiting[0]; first !== undefined && first.bytes <= this.#left; first = this.#waiting[0]) {
      this.#waiting.shift();
      this.#left -= first.bytes;
      first.go();
    }
  }
}
