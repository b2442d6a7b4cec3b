import { useState } from 'preact/hooks';
import { ask } from '../../dashboard/web/api.ts';
import type { Api } from '../../dashboard/web/api-types.ts';
import { FormDialog, type Why } from '../../dashboard/web/kit/overlays.tsx';
import { announce, Force, Outcome } from './redeliver.tsx';
import type { DeliveryReviewAnswers } from './service.ts';

interface EditProps {
  readonly delivery: Api['DeliveryDetail'];
  readonly onDone: () => void;
  readonly onClose: () => void;
}

/** Whether the full body is available as editable text. */
export const isEditable = ({ body, bodyEncoding, bodyTruncated, flowId, redeliveredAs }: Api['DeliveryDetail']) =>
  flowId !== null && redeliveredAs === null && body !== null && bodyEncoding === 'utf8' && !bodyTruncated;

/** Sends a delivery again with another body. If it is refused, shows the reason below and keeps the text. */
export function EditAndSend({ delivery, onDone, onClose }: EditProps) {
  const came = delivery.body ?? '';
  const [text, setText] = useState(came);
  const [result, setResult] = useState<DeliveryReviewAnswers['Redelivery']>();
  const [isForced, setForced] = useState(false);
  const body = inLinesOf(came, text);
  const send = async (why: Why) => {
    const force = isForced ? { force: true } : {};
    const answer = await ask<DeliveryReviewAnswers['Redelivery']>(`/webhooks/${delivery.id}/redeliver`, {
      method: 'POST',
      body: { ...why, ...force, body },
    });
    setResult(answer);
    if (answer.outcome !== 'accepted') return;
    announce(answer);
    onDone();
    onClose();
  };
  return (
    <FormDialog
      title="Edit and send again"
      action={isForced ? 'Send it anyway' : 'Send again'}
      isWide
      isDangerous={isForced}
      isDisabled={body === came}
      send={send}
      onClose={onClose}
    >
      <p>
        It becomes a delivery of its own, marked as edited by you: no signature is verified over this body. Its schema
        and the conditions of the trigger apply.
      </p>
      <label class="field">
        Body
        <textarea
          class="mono"
          rows={14}
          spellcheck={false}
          value={text}
          onInput={(event) => setText(event.currentTarget.value)}
        />
      </label>
      {result === undefined ? null : <Outcome of={result} />}
      {result?.outcome === 'refused' ? <Force isForced={isForced} onChange={setForced} /> : null}
    </FormDialog>
  );
}

/** A text field has one kind of line end; a multipart body needs the other. */
const inLinesOf = (came: string, text: string) => (/\r\n/.test(came) ? text.replace(/\r?\n/g, '\r\n') : text);
