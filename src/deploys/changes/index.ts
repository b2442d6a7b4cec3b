import type { Finding, FindingClass, LiveFlow } from '../../model/finding.ts';
import type { Json } from '../../model/json.ts';
import { type ChangeRule, readChange } from './change.ts';
import { cronChanged } from './cron-changed.ts';
import { firstWebhookChanged } from './first-webhook-changed.ts';
import { idChanged } from './flow-id.ts';
import { flowTimeoutChanged } from './flow-timeout-changed.ts';
import { gatesChanged } from './gates-changed.ts';
import { inputsReadUnknownStep } from './inputs-read-unknown-step.ts';
import { ipListsChanged } from './ip-lists-changed.ts';
import { labelsChanged } from './labels-changed.ts';
import { otherChanges } from './other-changes.ts';
import { pinnedFieldsChanged } from './pinned-fields-changed.ts';
import { runAfterChanged } from './run-after-changed.ts';
import { secretsChanged } from './secrets-changed.ts';
import { slugChanged } from './slug-changed.ts';
import { stepAdded } from './step-added.ts';
import { stepInputsChanged } from './step-inputs-changed.ts';
import { stepRemoved } from './step-removed.ts';
import { stepRenamed } from './step-renamed.ts';
import { stepSlotsChanged } from './step-slots-changed.ts';
import { triggerAdded } from './trigger-added.ts';
import { triggerInputsChanged } from './trigger-inputs-changed.ts';
import { renamedTriggers } from './trigger-keys.ts';
import { triggerRemoved } from './trigger-removed.ts';
import { triggerTypeChanged } from './trigger-type-changed.ts';
import { typeChanged } from './type-changed.ts';
import { whenChanged } from './when-changed.ts';

export { findReplaced, flowIdChanged } from './flow-id.ts';

const RULES: readonly ChangeRule[] = [
  idChanged,
  stepRemoved,
  stepRenamed,
  stepAdded,
  runAfterChanged,
  whenChanged,
  typeChanged,
  inputsReadUnknownStep,
  stepInputsChanged,
  pinnedFieldsChanged,
  flowTimeoutChanged,
  stepSlotsChanged,
  triggerRemoved,
  triggerTypeChanged,
  triggerAdded,
  firstWebhookChanged,
  slugChanged,
  secretsChanged,
  ipListsChanged,
  gatesChanged,
  cronChanged,
  triggerInputsChanged,
  labelsChanged,
];

const GRAVITY = { breaking: 2, caution: 1, safe: 0 } as const satisfies Record<FindingClass, number>;

/** Two revisions of a flow. Snapshots are in canonical spelling, their secrets references or masked. */
export interface Revisions {
  readonly before: Json;
  readonly after: Json;
  readonly live: LiveFlow;
  readonly retentionDays: number;
}

/** Webhook and other triggers that only have another key. */
export function findRenamedTriggers(revisions: Revisions): { from: string; to: string }[] {
  return [...renamedTriggers(readChange(revisions))].map(([from, to]) => ({ from, to }));
}

/**
 * Everything in which two revisions of a flow differ, the gravest first. A difference that no rule knows is a caution.
 */
export function compareRevisions(revisions: Revisions): readonly Finding[] {
  const change = readChange(revisions);
  const known = RULES.flatMap((rule) => rule(change));
  const findings = [...known, ...otherChanges(change, known)];
  return findings.sort((one, other) => GRAVITY[other.class] - GRAVITY[one.class]);
}

/** The gravest class among findings; `safe` where there are none. */
export function gravest(findings: readonly Pick<Finding, 'class'>[]): FindingClass {
  const rank = Math.max(0, ...findings.map((finding) => GRAVITY[finding.class]));
  return (['safe', 'caution', 'breaking'] as const)[rank] ?? 'breaking';
}
