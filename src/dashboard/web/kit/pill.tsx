import type { ComponentChildren } from 'preact';
import type { Api } from '../api-types.ts';
import { ICONS, LOOKS, type Look } from '../looks.ts';

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
