/**
 * What one render of a template, or the conditions of one step, may cost together. A step is about one node of an
 * expression evaluated, some 40 ns; 32 characters copied or compared cost as much. The bound is a count and no clock:
 * the same expression over the same data always succeeds or always fails, on a busy machine, at a retry and in a dry run.
 */
export const BUDGET_STEPS = 1_000_000;

const CHARACTERS_PER_STEP = 32;
/** Items of a list copied at the price of one step. */
const ITEMS_PER_STEP = 4;
// An object of so many keys is a hash table to the engine, and listing its keys costs twenty times as much.
const MANY_KEYS = 1_000;
const STEPS_PER_KEY = 4;

/** The evaluation was stopped: it takes more work than any honest one. */
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
