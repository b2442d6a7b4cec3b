import { useState } from 'preact/hooks';
import { ask } from '../../dashboard/web/api.ts';
import type { Api } from '../../dashboard/web/api-types.ts';
import { format } from '../../dashboard/web/format.ts';
import { FormDialog, toast, type Why } from '../../dashboard/web/kit/overlays.tsx';
import type { PagePart } from '../../dashboard/web/part.ts';
import { whileClosed } from './while-closed.ts';

interface DiscardProps {
  readonly flow: Api['Flow'];
  readonly refresh: () => void;
}

function Discard({ flow, refresh }: DiscardProps) {
  const [isOpen, setOpen] = useState(false);
  return (
    <>
      {flow.held === 0 ? null : (
        <button type="button" class="button" onClick={() => setOpen(true)}>
          Discard held…
        </button>
      )}
      {isOpen ? <DiscardDialog flow={flow} onClose={() => setOpen(false)} onDone={refresh} /> : null}
    </>
  );
}

interface DialogProps {
  readonly flow: Api['Flow'];
  readonly onClose: () => void;
  readonly onDone: () => void;
}

/** The only way to discard accepted deliveries whose runs have not started. */
function DiscardDialog({ flow: { id, name, held }, onClose, onDone }: DialogProps) {
  const discard = async (why: Why) => {
    const { message } = await ask<{ message: string }>(`/flows/${id}/held/discard`, { method: 'POST', body: why });
    toast('good', `${message}.`);
    onDone();
    onClose();
  };
  return (
    <FormDialog
      title={`Discard what ${name} holds?`}
      close="Keep them"
      action="Discard"
      isDangerous
      reason="required"
      send={discard}
      onClose={onClose}
    >
      <p>{`The runs of ${format.counted(held, 'accepted delivery', 'accepted deliveries')} never start. You cannot undo this.`}</p>
    </FormDialog>
  );
}

export const holdPage: PagePart = {
  name: 'hold',
  at: { flowActions: Discard },
  whileClosed,
  actions: { discardHeld: 'Discard held deliveries' },
};
