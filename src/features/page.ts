import { activityPage } from '../dashboard/web/activity/activity-page.tsx';
import { deliveriesPart } from '../dashboard/web/deliveries/deliveries-page.tsx';
import { reviewPage } from '../dashboard/web/deliveries/review.tsx';
import { deployPagePage } from '../dashboard/web/flows/deploy-page.tsx';
import { flowsPart } from '../dashboard/web/flows/flow-page.tsx';
import { keysPage } from '../dashboard/web/flows/keys-panel.tsx';
import { driftPage } from '../dashboard/web/flows/payload-panel.tsx';
import { rehearsalPage } from '../dashboard/web/flows/rehearsal.tsx';
import { hostsPage } from '../dashboard/web/hosts/hosts-page.tsx';
import { alertsPage } from '../dashboard/web/overview/alerts-panel.tsx';
import { consumersPage } from '../dashboard/web/overview/consumers-panel.tsx';
import { figuresPage } from '../dashboard/web/overview/figures.tsx';
import { overviewPart } from '../dashboard/web/overview/overview-page.tsx';
import { replicasPage } from '../dashboard/web/overview/replicas-panel.tsx';
import type { PagePart } from '../dashboard/web/part.ts';
import { publishersPagePage } from '../dashboard/web/publishers/publisher-page.tsx';
import { bulkPage } from '../dashboard/web/runs/bulk.tsx';
import { runsPart } from '../dashboard/web/runs/runs-page.tsx';
import { schedulesPage } from '../dashboard/web/schedules/schedules-page.tsx';
import { booksPage } from './books/page.tsx';
import { evidencePage } from './evidence/page.tsx';

/** What the page is made of: navigation, panels and views have this order. */
export const pageParts: readonly PagePart[] = [
  overviewPart,
  deliveriesPart,
  flowsPart,
  publishersPagePage,
  runsPart,
  schedulesPage,
  hostsPage,
  activityPage,
  figuresPage,
  booksPage,
  alertsPage,
  consumersPage,
  replicasPage,
  evidencePage,
  driftPage,
  reviewPage,
  keysPage,
  deployPagePage,
  rehearsalPage,
  bulkPage,
];
