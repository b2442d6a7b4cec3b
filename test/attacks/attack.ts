import type { Target } from './target.ts';

/** A row of the table: what somebody tries against a running service, and what must hold all the same. */
export interface Attack {
  /** The rule that the attack would break. */
  readonly rule: string;
  /** What the attacker does. */
  readonly attack: string;
  /** Makes the attack, and expects what must hold. */
  readonly run: (target: Target) => Promise<void>;
}
