import { Icon } from '../../dashboard/web/kit/pill.tsx';
import type { PagePart } from '../../dashboard/web/part.ts';

function EvidenceLink({ id }: { id: string }) {
  return (
    <a class="button" href={`/flows/api/webhooks/${encodeURIComponent(id)}/evidence`} download>
      <Icon name="download" />
      Evidence
    </a>
  );
}

export const evidencePage: PagePart = { name: 'evidence', at: { deliveryTools: EvidenceLink } };
