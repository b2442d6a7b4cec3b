import { ExpressionError } from '../expressions/compile.ts';
import type { ExpressionContext, Reference } from '../expressions/context.ts';
import { formatPath } from '../expressions/json-path.ts';
import type { CompiledTemplate } from '../expressions/template.ts';
import { isMasked } from '../manifest/mask.ts';
import { isReference, type SecretReader, type UnreadSecret } from '../manifest/read-secret.ts';
import { resolveStepSecrets, stepSecrets } from '../manifest/secrets.ts';
import type { Json } from '../model/json.ts';
import type { Graph } from '../model/manifest.ts';
import { MAX_BYTES } from '../model/run.ts';
import { graphOfScope, scopesAround } from '../model/runtime-keys.ts';
import type { Claim, LargeRunInput, RunInput, Store } from '../store/store.ts';
import type { StepHandler } from './handlers/handler.ts';
import type { Abortable } from './leases.ts';
import { problemOfJson } from './non-json.ts';
import { freezeJson, NO_CONTEXT, type PreparedInputs, type PreparedRevision } from './prepared-revision.ts';
import { MissingSecretError } from './secret-wait.ts';
import { expressionContext, type Place } from './step-context.ts';
import { StepFailure } from './step-failure.ts';
import type { WaitLinks } from './wait-links.ts';

export interface ResolvedInputs {
  /** Frozen: it is recorded, and can be shared by every run, so no handler may change it. */
  readonly value: Json;
  /** Values that are masked in everything recorded. */
  readonly secrets: readonly string[];
  /** References to secrets, as written. */
  readonly references: readonly string[];
}

interface InputRequest {
  readonly inputs: PreparedInputs;
  readonly handler: StepHandler;
  readonly readSecret: SecretReader;
  /** Called only if an expression needs it, with everything that the expressions read. */
  readonly readRunInput: ReadRunInput;
  readonly claim: Place;
  readonly waits?: WaitLinks | undefined;
}

/** Renders expressions and inserts secrets. Throws `StepFailure`, `MissingSecretError`, and errors of the store. */
export function resolveInputs(request: InputRequest): ResolvedInputs | Promise<ResolvedInputs> {
  const { inputs, readSecret } = request;
  if (inputs.constant !== undefined) return withSecrets(inputs.constant, request);
  const embedded = readEmbedded(inputs.template, readSecret);
  const links: string[] = [];
  return render(request, embedded, links).then((rendered) => {
    const { value, secrets, references } = withSecrets(rendered, request);
    return {
      value,
      secrets: [...links, ...secrets, ...embedded.values()],
      references: [...references, ...embedded.keys()],
    };
  });
}

/** The values of `secret()` references. */
function readEmbedded({ secrets }: CompiledTemplate, readSecret: SecretReader): ReadonlyMap<string, string> {
  return new Map(
    secrets.map(({ reference, at }) => {
      const read = readSecret(reference);
      if ('error' in read) throw unreadSecret({ ...read, error: `inputs.${formatPath(at)}: ${read.error}` });
      return [reference, read.value];
    }),
  );
}

function unreadSecret({ isForbidden, error }: UnreadSecret): Error {
  return isForbidden === true ? new StepFailure('secret_unavailable', error, true) : new MissingSecretError(error);
}

function withSecrets(
  rendered: Json,
  { inputs: { written }, handler, readSecret }: Pick<InputRequest, 'inputs' | 'handler' | 'readSecret'>,
): ResolvedInputs {
  const { secretInputs } = handler;
  const found = secretInputs.length === 0 ? [] : stepSecrets(written, secretInputs);
  const secrets = found.filter(({ isPart }) => isPart !== true);
  if (secrets.length === 0) return { value: rendered, secrets: [], references: [] };
  const lost = secrets.find(({ text }) => isMasked(text));
  if (lost !== undefined) {
    // A stored revision contains references to secrets, but no plain-text secrets.
    throw new StepFailure(
      'secret_not_kept',
      `${formatPath(['inputs', ...lost.path])} was in plain text in a manifest that is no longer loaded, and is not stored in a form that this process can read; ` +
        'put back the store key, load the manifest again, or name the secret by env:NAME or file:PATH',
    );
  }
  const resolved = resolveStepSecrets({ written, rendered, secretInputs, readSecret });
  if ('error' in resolved) throw unreadSecret(resolved);
  const references = secrets.map(({ text }) => text).filter(isReference);
  return { value: freezeJson(resolved.inputs), secrets: resolved.secrets, references };
}

/** Adds the links that the inputs read to `given`: everyone who has a link can answer. */
async function render(
  { inputs: { template }, readRunInput, claim, waits }: InputRequest,
  embedded: ReadonlyMap<string, string>,
  given: string[],
): Promise<Json> {
  const { roots, references } = template;
  let context: ExpressionContext = NO_CONTEXT;
  if (roots.size > 0) {
    const input = await readRunInput(references);
    const links = roots.has('waits') ? await waits?.({ ...claim, startedAt: input.startedAt }, given) : undefined;
    context = { ...expressionContext(input, claim), waits: links };
  }
  let value: Json;
  try {
    value = template.render(context, embedded);
  } catch (error) {
    if (!(error instanceof ExpressionError)) throw error;
    const path = formatPath(['inputs', ...(error.problem.path ?? [])]);
    throw new StepFailure('expression_failed', `${path}: ${error.messageWithoutPath}`);
  }
  const problem = problemOfJson(value, 'inputs', MAX_BYTES.inputs);
  if (problem?.kind === 'tooLarge') throw new StepFailure('input_too_large', `the input ${problem.message}`);
  if (problem !== undefined) throw new StepFailure('expression_failed', problem.message);
  return freezeJson(value);
}

/** Runtime keys of the named siblings, and steps of scopes around, that expressions read; all if a name is computed. */
function stepKeysRead(graph: Graph, stepKey: string, references: readonly Reference[]): string[] {
  const paths = references.filter(({ root }) => root === 'steps').map(({ path }) => path[1]);
  const isAny = paths.includes(undefined);
  const names = new Set(paths.map(String));
  return scopesAround(stepKey).flatMap((scope) =>
    Object.keys(graphOfScope(graph, scope) ?? {})
      .filter((key) => isAny || names.has(key))
      .map((key) => `${scope}${key}`),
  );
}

/**
 * Reads what started the run, and the outputs that these references name. Throws `StepFailure` if that is more than a
 * step may read, the signal's reason if it aborts first, and errors of the store.
 */
export type ReadRunInput = (references: readonly Reference[]) => Promise<RunInput>;

/** Reads the data of one attempt. */
interface AttemptInput {
  readonly read: ReadRunInput;
  /** Lets the next attempt read, once none of the data is in use. */
  release(): void;
}

/** This much is read at once without waiting: almost every step reads less. */
const SMALL_BYTES = 1024 * 1024;
/** Larger values wait until enough of the memory shared by all steps is free. */
const SHARED_BYTES = 32 * 1024 * 1024;

type Graphed = Pick<PreparedRevision, 'graph'>;

/** Makes readers for attempts. Dozens run at once: each can hold a whole loop's output, but not all together. */
export function createRunInputs({
  store,
  catalog,
}: {
  readonly store: Pick<Store, 'readRunInput'>;
  readonly catalog: { pinned(flowId: string, revision: number): Graphed | Promise<Graphed> };
}): (claim: Claim, lease: Abortable) => AttemptInput {
  const shared = new SharedBytes(SHARED_BYTES);
  return (claim, lease) => {
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
        // An attempt releases its bytes before it waits for more; otherwise attempts could deadlock.
        release();
        held = await shared.take(maxBytes, lease.signal);
      }
    };
    return {
      async read(references) {
        const { graph } = await catalog.pinned(flowId, revision);
        const keys = stepKeysRead(graph, stepKey, references);
        if (known !== undefined && keys.every((key) => known?.keys.has(key))) return known.input;
        const { steps, ...started } = await read(keys);
        // Keeps the trigger of the first reading, whose body is parsed only once.
        known = { keys: new Set(keys), input: { ...(known?.input ?? started), steps } };
        return known.input;
      },
      release,
    };
  };
}

function bytesOf({ bodyBytes, outputBytes }: LargeRunInput): number {
  if (outputBytes <= MAX_BYTES.inputs) return bodyBytes + outputBytes;
  throw new StepFailure(
    'input_too_large',
    `the steps that its expressions read left ${outputBytes} bytes as JSON; at most ${MAX_BYTES.inputs} are read`,
  );
}

/** A shared number of bytes: each caller waits, in turn, until enough are left. */
class SharedBytes {
  readonly #size: number;
  #left: number;
  readonly #waiting: { readonly bytes: number; go(): void }[] = [];

  constructor(size: number) {
    this.#size = size;
    this.#left = size;
  }

  /** Yields the number taken, which is everything for a larger request. Rejects if the signal aborts first. */
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
