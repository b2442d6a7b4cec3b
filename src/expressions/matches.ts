import { RE2JS } from 're2js';
import type { Budget } from './budget.ts';

// What the data holds is compiled at each call, so it stays small: a counted repetition alone may mean thousands of states.
const MAX_DYNAMIC_PATTERN = 100;
const COMPILE_STEPS = 5_000;

/** A pattern that `matches()` cannot take. The message does not quote it: it may come from the data. */
export class PatternError extends Error {}

/**
 * Compiles a pattern. The syntax is RE2's, as the CEL specification has it: no lookaround and no backreferences, and in
 * return no pattern whose time explodes.
 */
export function compilePattern(pattern: string): RE2JS {
  try {
    return RE2JS.compile(pattern);
  } catch {
    throw new PatternError('matches() got an invalid pattern; the syntax is RE2, without lookaround or backreferences');
  }
}

/** Compiles a pattern that is not written out in the expression. */
export function compileDynamicPattern(pattern: string, budget: Budget): RE2JS {
  budget.charge(COMPILE_STEPS);
  if (pattern.length > MAX_DYNAMIC_PATTERN || /\{\d/.test(pattern)) {
    throw new PatternError(
      `a pattern that is not written out in the expression has at most ${MAX_DYNAMIC_PATTERN} characters and no counted repetition`,
    );
  }
  return compilePattern(pattern);
}

/** Whether the pattern is found in the text. The time is linear in the text, for each state of the pattern. */
export function matches(text: string, pattern: RE2JS, budget: Budget): boolean {
  budget.charge(text.length * pattern.programSize());
  return pattern.test(text);
}
