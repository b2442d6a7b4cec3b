import { stepPart } from '../../config/step-part.ts';
import { leavesAlertFlow } from './alert-flow.ts';
import { createAlertSender, createSendAlertHandler } from './send.ts';

/** `SendAlert`, and the sender of alerts. */
export const alertsStepTypes = stepPart({
  name: 'alerts',
  make({ settings, readSecret, inForce }) {
    // Alerts do not wait for a turn at their host: one that reports an open circuit must be sent while it is open.
    const send = createAlertSender({
      targets: () => inForce().alerts?.targets ?? [],
      service: settings.serviceName,
      readSecret,
      egressAllow: settings.egressAllow,
    });
    return { handlers: [createSendAlertHandler(send)], checks: [leavesAlertFlow], made: send };
  },
});
