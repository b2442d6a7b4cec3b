import type { ComponentChildren } from 'preact';
import { useEffect, useId, useRef, useState } from 'preact/hooks';
import { messageOf } from '../api.ts';
import { createState, useShared } from '../state.ts';
import { Icon } from './pill.tsx';

/** Shows the messages of `toast` and `confirm`; once on the page. */
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

/** The browser's own modal dialog: it traps the focus, restores it, and closes on Escape. */
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
  /** Names the action, not "OK"; a foot without it only closes the dialog. */
  readonly action?: string | undefined;
  /** If absent, the button submits the surrounding form. */
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

/** The reason for an action, as every command of the API accepts it. */
export interface Why {
  readonly reason?: string;
}

interface FormDialogProps extends DialogProps, Omit<DialogFootProps, 'onAct' | 'onClose'> {
  /** The form's action; the button waits until it has ended. A failure is shown, and the dialog stays. */
  readonly send: (why: Why) => Promise<void>;
  /** Whether a reason is needed; `none` if nothing is done yet. */
  readonly reason?: 'optional' | 'required' | 'none';
}

/** A dialog with a form in it. */
export function FormDialog(props: FormDialogProps) {
  const { title, isWide = false, children, send, isDisabled, reason = 'optional', ...foot } = props;
  const [isSending, setSending] = useState(false);
  const [text, setText] = useState('');
  const isMissing = reason === 'required' && text.trim() === '';
  const submit = async (event: Event) => {
    event.preventDefault();
    setSending(true);
    await send(whyOf(text)).catch((error: unknown) => toast('bad', messageOf(error)));
    setSending(false);
  };
  return (
    <Dialog title={title} isWide={isWide} onClose={foot.onClose}>
      <form onSubmit={(event) => void submit(event)}>
        <div class="dialog-body">
          {children}
          {reason === 'none' ? null : <ReasonField text={text} onChange={setText} isRequired={reason === 'required'} />}
        </div>
        <DialogFoot {...foot} isDisabled={isDisabled === true || isSending || isMissing} />
      </form>
    </Dialog>
  );
}

const MAX_REASON = 500;

interface ReasonFieldProps {
  readonly text: string;
  readonly onChange: (text: string) => void;
  readonly isRequired?: boolean;
}

/** Asks for the reason. */
export function ReasonField({ text, onChange, isRequired = false }: ReasonFieldProps) {
  return (
    <label class="field">
      {isRequired ? 'Reason, kept in the activity' : 'Reason, kept in the activity (optional)'}
      <input
        required={isRequired}
        maxLength={MAX_REASON}
        value={text}
        onInput={(event) => onChange(event.currentTarget.value)}
      />
    </label>
  );
}

export function whyOf(text: string): Why {
  return text.trim() === '' ? {} : { reason: text.trim() };
}

interface Question {
  readonly title: string;
  readonly body: ComponentChildren;
  /** The button's text names the action, not "OK". */
  readonly action: string;
  readonly isDangerous?: boolean;
  /** A further decision; `value` is the initial choice. */
  readonly choice?: Choice | undefined;
}

export interface Choice {
  readonly label: string;
  readonly options: readonly { readonly value: string; readonly text: string }[];
  readonly value: string;
}

/** The user's consent. */
interface Confirmed {
  readonly why: Why;
  readonly choice: string | undefined;
}

const asked = createState<{ question: Question; answer: (answer: Confirmed | undefined) => void } | undefined>(
  undefined,
);

/** Asks before an action that cannot be undone, or that many would notice. Undefined if the user declines. */
export function confirm(question: Question): Promise<Confirmed | undefined> {
  asked.get()?.answer(undefined);
  return new Promise((resolve) => {
    const answer = (given: Confirmed | undefined) => {
      asked.set(undefined);
      resolve(given);
    };
    asked.set({ question, answer });
  });
}

function ConfirmDialog() {
  const current = useShared(asked);
  if (current === undefined) return null;
  return <QuestionDialog key={current.question.title} {...current} />;
}

function QuestionDialog({ question, answer }: NonNullable<ReturnType<typeof asked.get>>) {
  const { title, body, action, isDangerous, choice } = question;
  const [chosen, setChosen] = useState(choice?.value);
  return (
    <FormDialog
      title={title}
      action={action}
      isDangerous={isDangerous}
      send={async (why) => answer({ why, choice: chosen })}
      onClose={() => answer(undefined)}
    >
      {body}
      {choice === undefined ? null : (
        <label class="field">
          {choice.label}
          <select value={chosen} onChange={(event) => setChosen(event.currentTarget.value)}>
            {choice.options.map(({ value, text }) => (
              <option key={value} value={value}>
                {text}
              </option>
            ))}
          </select>
        </label>
      )}
    </FormDialog>
  );
}

interface Toast {
  readonly id: number;
  readonly tone: 'good' | 'bad';
  readonly message: string;
  /** The place that the message is about. */
  readonly link?: { readonly href: string; readonly text: string } | undefined;
}

const SHOWN_MS = { good: 6000, bad: 12_000 };
const toasts = createState<readonly Toast[]>([]);
let lastId = 0;

/** Shows the result of an action. */
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
