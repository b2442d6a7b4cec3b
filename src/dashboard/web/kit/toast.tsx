import { createState, useShared } from '../state.ts';
import { Icon } from './icon.tsx';

interface Toast {
  readonly id: number;
  readonly tone: 'good' | 'bad';
  readonly message: string;
  /** A place that the message is about. */
  readonly link?: { readonly href: string; readonly text: string } | undefined;
}

const SHOWN_MS = { good: 6000, bad: 12_000 };
const toasts = createState<readonly Toast[]>([]);
let lastId = 0;

/** Says what became of what somebody did. */
export function toast(tone: Toast['tone'], message: string, link?: Toast['link']): void {
  lastId += 1;
  const id = lastId;
  toasts.set([...toasts.get(), { id, tone, message, link }]);
  setTimeout(() => dismiss(id), SHOWN_MS[tone]);
}

export function Toasts() {
  return (
    <div class="toasts" role="status" aria-live="polite">
      {useShared(toasts).map(({ id, tone, message, link }) => (
        <div key={id} class={`toast ${tone}`}>
          <Icon name={tone === 'good' ? 'check' : 'warn'} />
          <span>
            {message} {link === undefined ? null : <a href={link.href}>{link.text}</a>}
          </span>
          <button type="button" class="icon-button" onClick={() => dismiss(id)}>
            <Icon name="cross" />
            <span class="unseen">Dismiss</span>
          </button>
        </div>
      ))}
    </div>
  );
}

function dismiss(id: number): void {
  toasts.set(toasts.get().filter((it) => it.id !== id));
}
