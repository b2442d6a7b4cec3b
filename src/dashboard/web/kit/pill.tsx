import type { ComponentChildren } from 'preact';
import type { Api } from '../api-types.ts';
import { format } from '../format.ts';
import { deliveryLook, ICONS, LOOKS, type Look, runLook } from '../looks.ts';
import { WAITS, words } from '../words.ts';
import { Time } from './time.tsx';

interface PillProps {
  readonly tone: Look['tone'];
  readonly icon: Look['icon'];
  readonly children: ComponentChildren;
  readonly title?: string | undefined;
}

/** A state: picture and words express it, the colour only helps. */
export function Pill({ tone, icon, children, title }: PillProps) {
  return (
    <span class={`pill ${tone}`} title={title}>
      <Icon name={icon} spins={icon === 'spinner'} />
      {children}
    </span>
  );
}

/** The status of a run or a step. */
export function StatusPill({ status }: { status: Api['Run']['status'] | Api['Step']['status'] }) {
  const [tone, icon, text] = LOOKS.status[status];
  return (
    <Pill tone={tone} icon={icon}>
      {text}
    </Pill>
  );
}

/** The status of a run; one in flight may be waiting. */
export function RunPill({ run }: { run: Parameters<typeof runLook>[0] }) {
  const { text, ...look } = runLook(run);
  return <Pill {...look}>{text}</Pill>;
}

/** What a run waits for and until when, or the step by which it failed or that it survived. */
export function RunWhy({ run: { waitingFor, failure } }: { run: Pick<Api['Run'], 'waitingFor' | 'failure'> }) {
  if (failure !== null) {
    return (
      <span class={`why-text ${failure.handled ? '' : 'bad'}`} title={`${failure.message}\n${failure.code}`}>
        {failure.handled ? 'Got over ' : null}
        {failure.message} (<b>{failure.stepKey}</b>)
      </span>
    );
  }
  const [first, ...others] = waitingFor;
  if (first === undefined) return null;
  return (
    <span class="why-text">
      <WaitText wait={first} />
      {others.map((wait) => (
        <span key={wait.for}>
          {'; '}
          <WaitText wait={wait} />
        </span>
      ))}
    </span>
  );
}

export function WaitText({ wait }: { wait: Api['Run']['waitingFor'][number] }) {
  const { stepKey, signalName, host, runId, until, why, steps } = wait;
  const { does, next } = WAITS[wait.for];
  return (
    <>
      {stepKey === null ? 'The run' : <b>{stepKey}</b>} {does}
      {signalName === null ? null : ` “${signalName}”`}
      {host === null ? null : ` ${host}`}
      {runId === null ? null : (
        <>
          {' '}
          <a href={`/flows/runs/${runId}`}>
            <code>{format.shortId(runId)}</code>
          </a>
        </>
      )}
      {until === null ? null : (
        <>
          {why === null ? `, ${next} ` : ', which is tried again '}
          <Time at={until} />
        </>
      )}
      {why === null ? null : `: ${why}`}
      {steps === 1 ? null : <span class="muted">{` (and ${steps - 1}${steps === 100 ? '+' : ''} more)`}</span>}
    </>
  );
}

export function DeliveryPill({ delivery }: { delivery: Parameters<typeof deliveryLook>[0] }) {
  const { text, ...look } = deliveryLook(delivery);
  return <Pill {...look}>{text}</Pill>;
}

export function ReasonText({ reason }: { reason: Api['Delivery']['reason'] }) {
  if (reason === null) return <span class="muted">–</span>;
  return (
    <span class="reason-text" title={`${words.reasonMeaning(reason)}\n${reason}`}>
      {words.reason(reason)}
    </span>
  );
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

/** A picture next to text with the same meaning: hidden from screen readers. */
export function Icon({ name, spins = false }: { name: Look['icon']; spins?: boolean }) {
  return (
    <svg class={spins ? 'icon spins' : 'icon'} viewBox="0 0 16 16" aria-hidden="true" focusable="false">
      <path d={ICONS[name]} />
    </svg>
  );
}
