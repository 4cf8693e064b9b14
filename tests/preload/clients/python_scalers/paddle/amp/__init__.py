from .grad_scaler import AmpScaler, GradScaler
