import { useId, useState } from 'preact/hooks';
import { ask } from '../../dashboard/web/api.ts';
import { Dialog, DialogFoot } from '../../dashboard/web/kit/overlays.tsx';
import { Failure } from '../../dashboard/web/kit/page.tsx';
import { Icon, Pill } from '../../dashboard/web/kit/pill.tsx';
import { GateResults, Hints } from '../deliveries/gate-results.tsx';
import { words } from '../deliveries/page/words.ts';
import { headerLines } from './header-lines.ts';
import type { DeliveryReviewAnswers } from './service.ts';

interface DryRunProps {
  readonly idOrSlug: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
}

/** Opens a dialog that judges a delivery as if it came now, without creating or using up anything. */
export function DryRunButton(delivery: DryRunProps) {
  const [isOpen, setOpen] = useState(false);
  return (
    <>
      <button type="button" class="button" onClick={() => setOpen(true)}>
        <Icon name="eye" />
        Dry run…
      </button>
      {isOpen ? <DryRunDialog {...delivery} onClose={() => setOpen(false)} /> : null}
    </>
  );
}

function DryRunDialog({ idOrSlug, headers, body, onClose }: DryRunProps & { readonly onClose: () => void }) {
  const [headerText, setHeaderText] = useState(() => headerLines.write(headers));
  const [bodyText, setBodyText] = useState(body);
  const [result, setResult] = useState<{ answer?: DeliveryReviewAnswers['DryRun']; error?: unknown }>({});
  const ids = { headers: useId(), body: useId() };
  const check = async (event: Event) => {
    event.preventDefault();
    try {
      setResult({ answer: await dryRun({ idOrSlug, headerText, bodyText }) });
    } catch (error) {
      setResult({ error });
    }
  };
  return (
    <Dialog title="Dry run" isWide onClose={onClose}>
      <form onSubmit={check}>
        <div class="dialog-body">
          <p>
            The gates check this delivery as if it arrived now from this browser’s address. A dry run starts no run and
            uses up no nonce and no permit. The browser adds its own headers and drops those that only it may set.
          </p>
          <label class="field" for={ids.headers}>
            Headers, one per line
            <textarea
              id={ids.headers}
              class="low"
              spellcheck={false}
              value={headerText}
              onInput={(event) => setHeaderText(event.currentTarget.value)}
            />
          </label>
          <label class="field" for={ids.body}>
            Body, byte for byte
            <textarea
              id={ids.body}
              class="low"
              spellcheck={false}
              value={bodyText}
              onInput={(event) => setBodyText(event.currentTarget.value)}
            />
          </label>
          <div role="status">
            {result.error === undefined ? null : <Failure error={result.error} />}
            {result.answer === undefined ? null : <DryRunResult dryRun={result.answer} />}
          </div>
        </div>
        <DialogFoot close="Close" action="Check" onClose={onClose} />
      </form>
    </Dialog>
  );
}

function DryRunResult({
  dryRun: { statusCode, reason, mode, hints, gateResults },
}: {
  dryRun: DeliveryReviewAnswers['DryRun'];
}) {
  const isRefused = statusCode >= 400;
  const tone = isRefused ? 'bad' : reason === null ? 'good' : 'warn';
  return (
    <>
      <p class="plan-line verdict-line">
        <Pill tone={tone} icon={isRefused ? 'cross' : reason === null ? 'check' : 'warn'}>
          {`Would answer ${statusCode}`}
        </Pill>
        <span>{`${reason === null ? 'It passes every gate' : words.reason(reason)}. The mode is ${mode}.`}</span>
      </p>
      <Hints hints={hints} />
      <GateResults results={gateResults} />
    </>
  );
}

interface Question {
  readonly idOrSlug: string;
  readonly headerText: string;
  readonly bodyText: string;
}

function dryRun({ idOrSlug, headerText, bodyText }: Question): Promise<DeliveryReviewAnswers['DryRun']> {
  return ask<DeliveryReviewAnswers['DryRun']>(`/webhooks/dry-run/${encodeURIComponent(idOrSlug)}`, {
    method: 'POST',
    headers: headerLines.read(headerText),
    // Sent as bytes: for a string, the browser would set its own content type.
    rawBody: new TextEncoder().encode(bodyText),
  });
}
