/**
 * The total cost that one render of a template, or the conditions of one step, can have. A step is roughly one
 * evaluated node of an expression, some 40 ns; 32 copied or compared characters cost as much. The limit is a count, not
 * a time: the same expression over the same data always succeeds or always fails, on a busy machine, at a retry and in
 * a dry run.
 */
export const BUDGET_STEPS = 1_000_000;

const CHARACTERS_PER_STEP = 32;
/** How many copied list items cost one step. */
const ITEMS_PER_STEP = 4;
// V8 stores an object with so many keys as a hash table, and listing its keys costs twenty times as much.
const MANY_KEYS = 1_000;
const STEPS_PER_KEY = 4;

/** Stops an evaluation that takes more work than any honest one. */
export class BudgetError extends Error {
  constructor(steps: number) {
    super(`takes more work than is allowed over this data (${steps} steps)`);
  }
}

export class Budget {
  readonly #steps: number;
  #left: number;

  constructor(steps: number = BUDGET_STEPS) {
    this.#steps = steps;
    this.#left = steps;
  }

  get spent(): number {
    return this.#steps - this.#left;
  }

  /** Call it before the work is done. Throws `BudgetError`, also at every later call. */
  charge(steps: number): void {
    this.#left -= steps;
    if (!(this.#left >= 0)) throw new BudgetError(this.#steps);
  }

  chargeText(characters: number): void {
    this.charge(Math.ceil(characters / CHARACTERS_PER_STEP));
  }

  chargeItems(items: number): void {
    this.charge(1 + Math.ceil(items / ITEMS_PER_STEP));
  }

  chargeKeys(keys: number): void {
    if (keys > MANY_KEYS) this.charge(keys * STEPS_PER_KEY);
    else this.chargeItems(keys);
  }
}
