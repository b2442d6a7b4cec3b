import type { ComponentChildren } from 'preact';
import { useEffect, useId, useRef, useState } from 'preact/hooks';
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

interface DialogFootProps {
  /** What will be done, not "OK"; a foot without it only closes the dialog. */
  readonly action?: string | undefined;
  /** Without it, the button sends the form around it. */
  readonly onAct?: () => void;
  readonly isDangerous?: boolean | undefined;
  readonly isDisabled?: boolean;
  readonly close?: string;
  readonly onClose: () => void;
}

/** The buttons of a dialog: one that leaves everything as it is, and one that acts. */
export function DialogFoot({ action, onAct, isDangerous, isDisabled, close = 'Cancel', onClose }: DialogFootProps) {
  return (
    <footer class="dialog-foot">
      <button type="button" class="button" onClick={onClose}>
        {close}
      </button>
      {action === undefined ? null : (
        <button
          type={onAct === undefined ? 'submit' : 'button'}
          class={`button ${isDangerous ? 'danger' : 'primary'}`}
          disabled={isDisabled}
          onClick={onAct}
        >
          {action}
        </button>
      )}
    </footer>
  );
}

interface FormDialogProps extends DialogProps, Omit<DialogFootProps, 'onAct' | 'onClose'> {
  /** What the form is for; the button waits until it has ended. */
  readonly send: () => Promise<void>;
}

/** A dialog with a form in it. */
export function FormDialog({ title, isWide = false, children, send, isDisabled, ...foot }: FormDialogProps) {
  const [isSending, setSending] = useState(false);
  const submit = async (event: Event) => {
    event.preventDefault();
    setSending(true);
    await send().finally(() => setSending(false));
  };
  return (
    <Dialog title={title} isWide={isWide} onClose={foot.onClose}>
      <form onSubmit={(event) => void submit(event)}>
        <div class="dialog-body">{children}</div>
        <DialogFoot {...foot} isDisabled={isDisabled === true || isSending} />
      </form>
    </Dialog>
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
      <DialogFoot
        action={question.action}
        isDangerous={question.isDangerous}
        onAct={() => answer(true)}
        onClose={() => answer(false)}
      />
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
