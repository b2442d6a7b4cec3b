import type { DeployedFlow } from '../../flows/catalog.ts';
import type { UnreadableManifest } from '../../manifest/load.ts';
import type { AttentionKind, Severity } from '../../model/attention.ts';
import { HOUR_MS } from '../../model/clock.ts';
import type { DeliveryCount, RunCount, SlotWaits, StorageMeasure } from '../../store/store.ts';
import type { NewKey } from '../../webhooks/schemes/standards/key-sets.ts';
import type { PreparedTrigger, TriggerTable } from '../../webhooks/triggers.ts';

/** The result of a rule. */
export interface Finding<Kind extends AttentionKind = AttentionKind> {
  readonly kind: Kind;
  /** If it differs from the usual one of its kind. */
  readonly severity?: Severity;
  /** One sentence. */
  readonly message: string;
  /** Path of the page that shows it, with the filter and the time if that shows a list. */
  readonly link: string;
  /** Defaults to the link's flow. */
  readonly flowId?: string | null;
  /** The flow that starts the affected one, if it names both. */
  readonly callerId?: string;
  readonly triggerKey?: string | null;
  /** Distinguishes it from others with its kind, flow and trigger for as long as it lasts; defaults to the link. */
  readonly about?: string;
  /** Replaces findings of this kind about the same trigger, because it is more precise. */
  readonly insteadOf?: AttentionKind;
}

/** Something that an operator should look at, and the place. */
export interface AttentionItem extends Finding {
  readonly severity: Severity;
  readonly flowId: string | null;
  readonly triggerKey: string | null;
}

/** Input that several rules share, read at one instant. */
export interface Situation {
  readonly now: number;
  /** 24 hours earlier: the start of all counts by time. */
  readonly since: number;
  readonly flows: readonly DeployedFlow[];
  readonly triggers: readonly PreparedTrigger[];
  /** Slugs that triggers share although they must not share them now. */
  readonly apart: ReturnType<TriggerTable['apart']>;
  /** Manifests of the folder that are not deployed as they are. */
  readonly unreadable: readonly UnreadableManifest[];
  /** Whether deliveries to a slug reach a trigger. */
  readonly isServed: (slug: string) => boolean;
  /** Flows with steps that wait for a secret, and what the first such step lacks. */
  readonly lacking: readonly { readonly flowId: string; readonly runId: string; readonly why: string }[];
  /** Runs that ended in the last 24 hours, counted from a whole hour. */
  readonly ended: readonly RunCount[];
  /** Deliveries of the same hours; `recent` are those of this hour and the one before. */
  readonly deliveries: readonly DeliveryCount[];
  /** Steps that have been due for `LONG_SLOT_WAIT_MS`, and how many can run at once. */
  readonly slots: SlotWaits & { readonly concurrency: number };
  readonly storage: StorageMeasure;
  /** Keys that appeared in publishers' key sets, as this process knows them. */
  readonly newKeys: readonly NewKey[];
}

export const LOOK_BACK_HOURS = 24;

export const RECENT_HOURS = 2;

/** A free slot takes a due step within milliseconds; after this time, a due step waits for other steps to end. */
export const LONG_SLOT_WAIT_MS = 10_000;

export const counted = (count: number, one: string, many = `${one}s`) =>
  count === 1 ? `1 ${one}` : `${count} ${many}`;

export function nameOf(flowId: string, flows: Situation['flows']): string {
  return flows.find(({ record }) => record.id === flowId)?.record.name ?? flowId;
}

/** The start of the hour this many hours ago: figures are counted by the hour. */
export function startOf(now: number, hoursAgo: number): string {
  return iso((Math.floor(now / HOUR_MS) - hoursAgo) * HOUR_MS);
}

export function iso(at: number): string {
  return new Date(at)
    .toISOString()
    .replace(/:00\.000Z$/, 'Z')
    .replace(/\.\d+Z$/, 'Z');
}

export function lasting(ms: number): string {
  const seconds = Math.round(ms / 1000);
  if (seconds < 120) return `${seconds} s`;
  const minutes = Math.round(seconds / 60);
  return minutes < 120 ? `${minutes} min` : `${Math.round(minutes / 60)} h`;
}
