import { attentionKinds } from '../features/attention.ts';

/** Worst first. `info` needs no action and alerts nobody. */
export const SEVERITIES = ['error', 'warning', 'info'] as const;
export type Severity = (typeof SEVERITIES)[number];

/** Kinds of items, each with its usual severity. */
export type AttentionKinds = Readonly<Record<string, Severity>>;

type KindsOf<Kinds> = Kinds extends AttentionKinds ? keyof Kinds & string : never;
export type AttentionKind = KindsOf<(typeof attentionKinds)[number]>;

/**
 * The kinds of items in the attention list, which shows what an operator should look at, each with its usual severity.
 * An item can have another one if its kind covers several cases.
 */
export const ATTENTION: Readonly<Record<AttentionKind, Severity>> = Object.assign({}, ...attentionKinds);
export const ATTENTION_KINDS = Object.keys(ATTENTION) as [AttentionKind, ...AttentionKind[]];
