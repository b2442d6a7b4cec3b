/**
 * What follows from an event in a run, worked out once for every backend.
 *
 * A decision is a generator over the rows of one transaction. It asks with `yield*`, as in `const run = yield*
 * rows.findRun(runId)`, and writes with plain calls. A backend that answers at once never suspends it: `decideNow` runs
 * it like a function. For a backend that answers later, `decide` awaits each question, so a question is a round trip; a
 * write is none.
 */
export type Decision<Value> = Generator<Promise<unknown>, Value, unknown>;

/** A question to the rows; `yield*` gives the answer. */
export interface Ask<Answer> {
  [Symbol.iterator](): Iterator<Promise<unknown>, Answer, unknown>;
}

type Given<Read> = Read extends (...given: infer Args) => unknown ? Args : never;
type Answer<Read> = Read extends (...given: never[]) => infer Value ? Value : never;

/** A backend's functions for an interface of questions: they answer at once, or later with a promise. */
export type Answers<Reads> = {
  readonly [Name in keyof Reads]: (...given: Given<Reads[Name]>) => Answer<Reads[Name]> | Promise<Answer<Reads[Name]>>;
};

/** The same questions in the form that decisions use. */
export type Asks<Reads> = {
  readonly [Name in keyof Reads]: (...given: Given<Reads[Name]>) => Ask<Answer<Reads[Name]>>;
};

/** Makes questions from a backend's answers, which are own functions of the object and use no `this`. */
export function asking<Reads extends object>(answers: Answers<Reads>): Asks<Reads> {
  const asks: Record<string, (...given: unknown[]) => Ask<unknown>> = {};
  for (const [name, answer] of Object.entries(answers as Record<string, (...given: unknown[]) => unknown>)) {
    asks[name] = (...given) => {
      const value = answer(...given);
      return value instanceof Promise ? awaited(value) : known(value);
    };
  }
  return asks as Asks<Reads>;
}

export function known<Answer>(value: Answer): Ask<Answer> {
  return new Known(value) as Ask<Answer>;
}

export function awaited<Answer>(promise: Promise<Answer>): Ask<Answer> {
  return new Awaited(promise) as Ask<Answer>;
}

/** An answer that is there: its own iterator and that one's result, so that a question costs one small object. */
class Known implements Ask<unknown>, Iterator<never, unknown>, IteratorReturnResult<unknown> {
  readonly done = true;
  readonly value: unknown;

  constructor(value: unknown) {
    this.value = value;
  }

  [Symbol.iterator](): this {
    return this;
  }

  next(): this {
    return this;
  }
}

class Awaited implements Ask<unknown> {
  readonly #promise: Promise<unknown>;

  constructor(promise: Promise<unknown>) {
    // If several are asked together and one fails, nothing waits for the ones behind it any more.
    promise.catch(() => {});
    this.#promise = promise;
  }

  *[Symbol.iterator](): Decision<unknown> {
    return yield this.#promise;
  }
}

/** Runs a decision over rows that answer at once. */
export function decideNow<Value>(decision: Decision<Value>): Value {
  const { done, value } = decision.next();
  if (done !== true) throw new Error('A question to the rows was not answered at once.');
  return value;
}

/** Runs a decision and waits for each answer; rejects if a question does. */
export async function decide<Value>(decision: Decision<Value>): Promise<Value> {
  let step = decision.next();
  while (step.done !== true) step = decision.next(await step.value);
  return step.value;
}
