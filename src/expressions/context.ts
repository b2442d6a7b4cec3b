import type { Json } from '../model/json.ts';
import type { StepStatus } from '../model/manifest.ts';
import type { StepError } from '../model/run.ts';

/** What expressions read. It must not change while it is in use. */
export interface ExpressionContext {
  readonly trigger: {
    readonly body: Json;
    /** Lower-case names. */
    readonly headers: Readonly<Record<string, string>>;
    readonly key: string;
  };
  /** Steps that have ended, by key. */
  readonly steps: Readonly<
    Record<string, { readonly status: StepStatus; readonly output: Json; readonly error: StepError | null }>
  >;
  /** Absent outside of a loop. */
  readonly loop?: { readonly item: Json; readonly index: number } | undefined;
  /** The answer that a poll judges; nothing else reads it. */
  readonly response?: Json | undefined;
}

export type Root = 'trigger' | 'steps' | 'loop' | 'response';

/** Properties of the roots; those of `steps` belong to each step. */
export const PROPERTIES: Readonly<Record<Root, readonly string[]>> = {
  trigger: ['body', 'headers', 'key'],
  steps: ['status', 'output', 'error'],
  loop: ['item', 'index'],
  response: ['status', 'headers', 'body'],
};

export function isRoot(name: unknown): name is Root {
  return typeof name === 'string' && Object.hasOwn(PROPERTIES, name);
}
