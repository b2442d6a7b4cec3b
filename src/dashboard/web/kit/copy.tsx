import { useState } from 'preact/hooks';
import { toast } from './overlays.tsx';
import { Icon } from './pill.tsx';

const SHOWN_MS = 1500;

/** Puts a text on the clipboard. `label` names the text, for screen readers. */
export function CopyButton({ text, label, children }: { text: string; label: string; children?: string }) {
  const [isDone, setDone] = useState(false);
  const copy = async () => {
    try {
      await writeClipboard(text);
      setDone(true);
      setTimeout(() => setDone(false), SHOWN_MS);
    } catch {
      toast('bad', 'The browser did not allow copying; select the text and copy it by hand');
    }
  };
  return (
    <button
      type="button"
      class={children === undefined ? 'icon-button' : 'button'}
      title={`Copy ${label}`}
      onClick={copy}
    >
      <Icon name={isDone ? 'check' : 'copy'} />
      {children === undefined ? <span class="unseen">{`Copy ${label}`}</span> : children}
      <span class="unseen" role="status">
        {isDone ? 'Copied' : ''}
      </span>
    </button>
  );
}

/** A command or an address, ready to paste. */
export function CodeLine({ text, label }: { text: string; label: string }) {
  return (
    <div class="code-line">
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reachable by keyboard. */}
      <code tabIndex={0}>{text}</code>
      <CopyButton text={text} label={label} />
    </div>
  );
}

// Browsers only provide the clipboard on pages with TLS, or on this machine; elsewhere the old way still works.
async function writeClipboard(text: string): Promise<void> {
  if (navigator.clipboard !== undefined) return navigator.clipboard.writeText(text);
  const area = document.createElement('textarea');
  area.value = text;
  area.style.position = 'fixed';
  area.style.opacity = '0';
  document.body.append(area);
  area.select();
  const isDone = document.execCommand('copy');
  area.remove();
  if (!isDone) throw new Error('the browser did not copy');
}
