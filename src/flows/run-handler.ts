import type { Logger } from 'pino';
import { formatPath } from '../expressions/json-path.ts';
import { maskerOf } from '../manifest/mask.ts';
import type { Clock } from '../model/clock.ts';
import { isExactNumber, isJsonArray, type Json } from '../model/json.ts';
import type { StepDefinition } from '../model/manifest.ts';
import type { Claim } from '../store/store.ts';
import { checkedFailure, checkedWait, messageOf, thrown, timedOut } from './handler-result.ts';
import { type HandlerResult, type StepContext, type StepHandler, startTimeLimit } from './handlers/handler.ts';
import type { ServedHandler } from './handlers/outside.ts';
import type { Abortable } from './leases.ts';
import { problemOfOutput } from './non-json.ts';
import { StepFailure } from './step-failure.ts';
import type { ReadRunInput, ResolvedInputs } from './step-inputs.ts';

interface HandlerTask {
  readonly handler: ServedHandler;
  readonly step: StepDefinition;
  readonly isFailureHandled: boolean;
  readonly resolved: ResolvedInputs;
  readonly claim: Claim;
  readonly lease: Abortable;
  readonly readRunInput: ReadRunInput;
}

interface HandlerServices {
  readonly logger: Logger;
  readonly clock: Clock;
}

/** No handler can yield it. */
const ABORTED = Symbol('aborted');

/**
 * Parses the inputs and runs the handler under the step's time limit. Yields undefined if its lease aborts first. If a
 * handler continues after its signal aborted, its result is ignored. Throws `StepFailure`, and errors of the store.
 */
export function runHandler(
  task: HandlerTask,
  services: HandlerServices,
): HandlerResult | undefined | Promise<HandlerResult | undefined> {
  const { lease } = task;
  const inputs = parseInputs(task.handler, task.resolved);
  if (lease.aborted) return undefined;
  const secondsLeft = timeLeft(task, services);
  if (secondsLeft !== undefined && secondsLeft <= 0) return timedOut(task);
  const limit = secondsLeft === undefined ? undefined : startTimeLimit(secondsLeft, lease.signal);
  const ends = limit ?? lease;
  let waiting: Promise<HandlerResult | undefined> | undefined;
  try {
    const running = start(contextOf(task, services, { inputs, ends }), task.handler);
    // A synchronous handler needs no wait.
    if (!(running instanceof Promise)) return checkedResult(running);
    waiting = waitFor(running, { task, signal: ends.signal }).finally(() => limit?.end());
    return waiting;
  } finally {
    if (waiting === undefined) limit?.end();
  }
}

async function waitFor(
  running: Promise<HandlerResult>,
  { task, signal }: { readonly task: HandlerTask; readonly signal: AbortSignal },
): Promise<HandlerResult | undefined> {
  const result = await Promise.race([running, whenAborted(signal)]);
  if (result !== ABORTED) return checkedResult(result);
  return task.lease.aborted ? undefined : timedOut(task);
}

/**
 * Seconds that the attempt has left, minus the time it waited; undefined if the step has no limit. A signal ended the
 * wait in time, however late the step gets its turn, so processing the signal gets the whole limit.
 */
function timeLeft({ step, claim }: HandlerTask, { clock }: Pick<HandlerServices, 'clock'>): number | undefined {
  if (step.timeoutSeconds === undefined) return undefined;
  if (claim.resumed === null || claim.resumed.signal !== null) return step.timeoutSeconds;
  // If the clock was set back while the step waited, it still gets no more than the whole limit.
  return step.timeoutSeconds - Math.max(0, clock.now() - claim.attemptStartedAt) / 1000;
}

/** Parses the inputs with the handler's schema; throws `StepFailure` if they do not fit. */
export function parseInputs(handler: StepHandler, resolved: Pick<ResolvedInputs, 'value'>): unknown {
  try {
    return parsedBy(handler, resolved);
  } catch (error) {
    if (error instanceof StepFailure) throw error;
    // The schema is the handler's own code.
    throw new StepFailure('handler_error', `the schema of its inputs failed: ${messageOf(error)}`);
  }
}

function parsedBy(handler: StepHandler, { value }: Pick<ResolvedInputs, 'value'>): unknown {
  const parsed = handler.inputs.safeParse(value);
  if (parsed.success) return parsed.data;
  // A schema that requires a number gets one; one that accepts any JSON keeps the number as it was sent.
  const lowered = parsed.error.issues.reduce((inputs, { path }) => withDoubles(inputs, path), value);
  const again = lowered === value ? parsed : handler.inputs.safeParse(lowered);
  if (again.success) return again.data;
  const problems = again.error.issues.map(({ path, message }) => {
    const keys = path.map((key) => (typeof key === 'number' ? key : String(key)));
    return `${formatPath(['inputs', ...keys])}: ${message}`;
  });
  throw new StepFailure('invalid_input', problems.join('; '));
}

/** The same inputs with the exact number at the path as a double. */
function withDoubles(inputs: Json, [key, ...rest]: readonly PropertyKey[]): Json {
  if (isExactNumber(inputs)) return key === undefined ? Number(inputs.rawJSON) : inputs;
  if (key === undefined || typeof inputs !== 'object' || inputs === null || !Object.hasOwn(inputs, key)) return inputs;
  const item: Json = Reflect.get(inputs, key);
  const made = withDoubles(item, rest);
  if (made === item) return inputs;
  return isJsonArray(inputs) ? inputs.with(Number(key), made) : { ...inputs, [String(key)]: made };
}

function start(context: StepContext, handler: StepHandler): Promise<HandlerResult> | HandlerResult {
  try {
    const running = handler.run(context);
    return running instanceof Promise ? running.catch(thrown) : running;
  } catch (error) {
    return thrown(error);
  }
}

/** A base class whose constructor returns the given object. */
const Itself = function itself(given: object) {
  return given;
} as unknown as new (
  given: object,
) => object;

interface Sources {
  readonly lease: Pick<Abortable, 'signal'>;
  readonly parent: Logger;
  readonly about: Pick<Claim, 'flowId' | 'runId' | 'stepKey'>;
}

/** The sources of a context's logger and signal, invisible to handlers and to code that prints a context. */
class Later extends Itself {
  readonly #lease: Sources['lease'];
  readonly #parent: Logger;
  readonly #about: Sources['about'];
  #logger: Logger | undefined;

  constructor(context: object, { lease, parent, about }: Sources) {
    super(context);
    this.#lease = lease;
    this.#parent = parent;
    this.#about = about;
  }

  /** Of a context, or of an object that has one as its prototype. */
  static #of(context: object): Later {
    return #lease in context ? context : Later.#of(Object.getPrototypeOf(context));
  }

  static loggerOf(context: object): Logger {
    const later = Later.#of(context);
    const { flowId, runId, stepKey } = later.#about;
    later.#logger ??= later.#parent.child({ flowId, runId, stepKey });
    return later.#logger;
  }

  static signalOf(context: object): AbortSignal {
    return Later.#of(context).#lease.signal;
  }
}

// Most handlers log nothing, and a child logger costs as much as the rest of a small step. All contexts share the
// getters: with its own getters, each context had its own hidden class, and V8 kept a tenth of what a step allocates
// until the next full collection.
const LOGGER: PropertyDescriptor & ThisType<object> = {
  enumerable: true,
  get() {
    return Later.loggerOf(this);
  },
};
const SIGNAL: PropertyDescriptor & ThisType<object> = {
  enumerable: true,
  get() {
    return Later.signalOf(this);
  },
};

function contextOf(
  { claim, resolved, readRunInput, isFailureHandled }: HandlerTask,
  { logger, clock }: HandlerServices,
  { inputs, ends }: { readonly inputs: unknown; readonly ends: Pick<Abortable, 'signal'> },
): StepContext {
  const { flowId, runId, stepKey, attempt } = claim;
  const context: Omit<StepContext, 'logger' | 'signal'> & Partial<StepContext> = {
    inputs,
    flowId,
    runId,
    stepKey,
    attempt,
    idempotencyKey: `${runId}:${stepKey}`,
    secretReferences: resolved.references,
    trigger: async () => (await readRunInput([])).trigger,
    mask: (text) => String(maskerOf(resolved.secrets)(text)),
    now: () => clock.now(),
    isFailureHandled,
    resumed: claim.resumed,
  };
  new Later(context, { lease: ends, parent: logger, about: { flowId, runId, stepKey } });
  Object.defineProperty(context, 'logger', LOGGER);
  Object.defineProperty(context, 'signal', SIGNAL);
  return context as StepContext;
}

/** Code can break the declared type of a handler's result: a result that cannot be stored fails the step. */
export function checkedResult(result: HandlerResult): HandlerResult {
  const given: Partial<HandlerResult> | undefined = result;
  if (given?.kind === 'failed') return checkedFailure(result as Extract<HandlerResult, { kind: 'failed' }>);
  if (given?.kind === 'waiting') return checkedWait(result as Extract<HandlerResult, { kind: 'waiting' }>);
  if (given?.kind !== 'succeeded') {
    throw new StepFailure('handler_error', 'the handler returned neither a success nor a failure nor a wait');
  }
  const problem = given.output === null ? undefined : problemOfOutput(given.output);
  if (problem !== undefined) throw problem;
  return result;
}

function whenAborted(signal: AbortSignal): Promise<typeof ABORTED> {
  return new Promise((resolve) => {
    if (signal.aborted) resolve(ABORTED);
    else signal.addEventListener('abort', () => resolve(ABORTED));
  });
}
