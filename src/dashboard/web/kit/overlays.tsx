import type { ComponentChildren } from 'preact';
import { useEffect, useId, useRef } from 'preact/hooks';
import { createState, useShared } from '../state.ts';
import { Icon } from './pill.tsx';

/** Where `toast` and `confirm` show what they say; once on the page. */
export function Overlays() {
  return (
    <>
      <Toasts />
      <ConfirmDialog />
    </>
  );
}

interface DialogProps {
  readonly title: string;
  readonly onClose: () => void;
  readonly children: ComponentChildren;
  readonly isWide?: boolean;
}

/** The browser's own modal dialog: it keeps the focus, gives it back, and closes on Escape. */
export function Dialog({ title, onClose, children, isWide = false }: DialogProps) {
  const element = useRef<HTMLDialogElement>(null);
  const titleId = useId();
  useEffect(() => {
    const dialog = element.current;
    dialog?.showModal();
    return () => dialog?.close();
  }, []);
  return (
    <dialog ref={element} class={isWide ? 'wide' : ''} aria-labelledby={titleId} onCancel={onClose} onClose={onClose}>
      <header>
        <h2 id={titleId}>{title}</h2>
        <button type="button" class="icon-button" onClick={onClose}>
          <Icon name="cross" />
          <span class="unseen">Close</span>
        </button>
      </header>
      {children}
    </dialog>
  );
}

interface Question {
  readonly title: string;
  readonly body: ComponentChildren;
  /** What the button says: what will be done, not "OK". */
  readonly action: string;
  readonly isDangerous?: boolean;
}

const asked = createState<{ question: Question; answer: (isYes: boolean) => void } | undefined>(undefined);

/** Asks before something is done that cannot be undone, or that many would notice. */
export function confirm(question: Question): Promise<boolean> {
  asked.get()?.answer(false);
  return new Promise((resolve) => {
    const answer = (isYes: boolean) => {
      asked.set(undefined);
      resolve(isYes);
    };
    asked.set({ question, answer });
  });
}

function ConfirmDialog() {
  const current = useShared(asked);
  if (current === undefined) return null;
  const { question, answer } = current;
  return (
    <Dialog title={question.title} onClose={() => answer(false)}>
      <div class="dialog-body">{question.body}</div>
      <footer class="dialog-foot">
        <button type="button" class="button" onClick={() => answer(false)}>
          Cancel
        </button>
        <button
          type="button"
          class={`button ${question.isDangerous ? 'danger' : 'primary'}`}
          onClick={() => answer(true)}
        >
          {question.action}
        </button>
      </footer>
    </Dialog>
  );
}

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

/** Says what an action led to. */
export function toast(tone: Toast['tone'], message: string, link?: Toast['link']): void {
  lastId += 1;
  const id = lastId;
  toasts.set([...toasts.get(), { id, tone, message, link }]);
  setTimeout(() => dismiss(id), SHOWN_MS[tone]);
}

function Toasts() {
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
