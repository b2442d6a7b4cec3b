import type { ComponentChildren } from 'preact';
import type { Delivery, RunStatus, StepStatus } from '../api-types.ts';
import { words } from '../format.ts';
import { Icon, type IconName } from './icon.tsx';

export type Tone = 'good' | 'bad' | 'warn' | 'busy' | 'quiet';

interface PillProps {
  readonly tone: Tone;
  readonly icon: IconName;
  readonly children: ComponentChildren;
  readonly title?: string | undefined;
}

/** A state: picture and words say it, the colour only helps. */
export function Pill({ tone, icon, children, title }: PillProps) {
  return (
    <span class={`pill ${tone}`} title={title}>
      <Icon name={icon} spins={icon === 'spinner'} />
      {children}
    </span>
  );
}

export const STATUSES: Readonly<Record<RunStatus | StepStatus, readonly [Tone, IconName, string]>> = {
  Pending: ['quiet', 'pending', 'Pending'],
  Running: ['busy', 'spinner', 'Running'],
  Succeeded: ['good', 'check', 'Succeeded'],
  Failed: ['bad', 'cross', 'Failed'],
  Skipped: ['quiet', 'skip', 'Skipped'],
  Cancelled: ['warn', 'stop', 'Cancelled'],
  TimedOut: ['bad', 'clock', 'Timed out'],
};

/** Where a run or a step stands. */
export function StatusPill({ status }: { status: RunStatus | StepStatus }) {
  const [tone, icon, text] = STATUSES[status];
  return (
    <Pill tone={tone} icon={icon}>
      {text}
    </Pill>
  );
}

type Judged = Pick<Delivery, 'rejected' | 'mode' | 'statusCode' | 'reason'>;

/** What became of a delivery. One that a gate refused and that was let in all the same is neither good nor bad. */
export function DeliveryPill({ delivery }: { delivery: Judged }) {
  const { rejected, mode, statusCode, reason } = delivery;
  if (!rejected) {
    return (
      <Pill tone="good" icon="check">
        Accepted
      </Pill>
    );
  }
  if (mode === 'Enforce' && statusCode < 400 && reason === 'nonce_replayed') {
    return (
      <Pill tone="quiet" icon="replay" title="Answered with the run of the first one">
        Duplicate
      </Pill>
    );
  }
  const isRefused = statusCode >= 400;
  return (
    <Pill tone={isRefused ? 'bad' : 'warn'} icon={isRefused ? 'cross' : 'warn'} title={reason ?? undefined}>
      {isRefused ? 'Refused' : 'Let in'}
    </Pill>
  );
}

export function ReasonText({ reason }: { reason: string | null }) {
  return reason === null ? <span class="muted">–</span> : <span title={reason}>{words(reason)}</span>;
}

const MODES = { Off: ['quiet', 'off'], Audit: ['warn', 'eye'], Enforce: ['good', 'shield'] } as const;

export function ModePill({ mode }: { mode: keyof typeof MODES }) {
  const [tone, icon] = MODES[mode];
  return (
    <Pill tone={tone} icon={icon}>
      {mode}
    </Pill>
  );
}
