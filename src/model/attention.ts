import { attentionKinds } from '../features/attention.ts';

/** Worst first. `info` needs no action and alerts nobody. */
export const SEVERITIES = ['error', 'warning', 'info'] as const;
export type Severity = (typeof SEVERITIES)[number];

/** Kinds of items, each with its usual severity. */
export type AttentionKinds = Readonly<Record<string, Severity>>;

const KERNEL = {
  store_unavailable: 'error',
  deliveries_not_stored: 'error',
  alerts_not_delivered: 'error',
  failed_runs: 'error',
  failure_flow_closed: 'warning',
  sub_flow_closed: 'warning',
  manifest_unreadable: 'error',
  trigger_not_enforced: 'warning',
  key_set_changed: 'info',
  preset_doubtful: 'warning',
} as const satisfies AttentionKinds;

type Given = typeof KERNEL | (typeof attentionKinds)[number];
type KindsOf<Kinds> = Kinds extends AttentionKinds ? keyof Kinds & string : never;
export type AttentionKind = KindsOf<Given>;
export type KernelAttentionKind = keyof typeof KERNEL;

/**
 * The kinds of items in the attention list, which shows what an operator should look at, each with its usual severity.
 * An item can have another one if its kind covers several cases.
 */
export const ATTENTION: Readonly<Record<AttentionKind, Severity>> = Object.assign({}, KERNEL, ...attentionKinds);
export const ATTENTION_KINDS = Object.keys(ATTENTION) as [AttentionKind, ...AttentionKind[]];
