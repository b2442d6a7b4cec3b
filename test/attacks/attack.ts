import type { Target } from './target.ts';

/** A row of the table: an attempt against a running service, and the rule that must hold in spite of it. */
export interface Attack {
  /** The rule that the attack would break. */
  readonly rule: string;
  /** What the attacker does. */
  readonly attack: string;
  /** Makes the attack, and checks the rule. */
  readonly run: (target: Target) => Promise<void>;
}
